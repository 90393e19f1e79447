package frame

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// ExplainFlag replaces pflag's error about a flag, which contains the name of a Go function, by
// plain words. help is the command that lists the flags. The error names it, unless the flag was
// refused with a hint of its own (Refusal).
func ExplainFlag(err error, help string) error {
	var refused Refusal
	if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) && errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", FlagName(invalid.GetFlag()), refused)
	}
	return fmt.Errorf("%w; see %s", InPlainWords(err), help)
}

// InPlainWords is ExplainFlag without the command that shows the flags.
func InPlainWords(err error) error {
	var (
		invalid *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("%s %s: %s", FlagName(invalid.GetFlag()), cmp.Or(invalid.GetValue(), `""`), expected(invalid))
	case errors.As(err, &missing):
		name := FlagName(missing.GetFlag())
		value, _ := pflag.UnquoteUsage(missing.GetFlag())
		return fmt.Errorf("%s needs a value: %s %s", name, name, value)
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedShortnames()) == 1:
		return fmt.Errorf("unknown flag: -%s", unknown.GetSpecifiedShortnames())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag: -%.1s in -%s", unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames())
	}
	return err
}

// SetRest sets every flag of arguments with a mistake. pflag has stopped at the first mistake, but
// the flags after it matter: --json names the file for the error, and -w a file to which the error
// must not be written.
func SetRest(flags *pflag.FlagSet, args []string) {
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.ParseAll(args, func(f *pflag.Flag, value string) error {
		f.Value.Set(value)
		return nil
	})
}

// FlagName is the flag as messages call it: -c rather than --count.
func FlagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// expected returns the requirement that a flag's value violates.
func expected(e *pflag.InvalidValueError) string {
	tooLarge := errors.Is(e, strconv.ErrRange)
	switch e.GetFlag().Value.Type() {
	case "uint64", "uint32":
		if tooLarge {
			return "is too large a number"
		}
		return "must be a positive whole number" + inDigits(e.GetValue())
	case "int", "count":
		if tooLarge {
			return "is too large a number"
		}
		return "must be a whole number"
	case "bool":
		return "must be true or false, or be omitted"
	case "stringSlice":
		return "must be words with commas between them"
	}
	return e.Unwrap().Error() // of a type of this package
}

// inDigits is the number that 1k or 2M may mean, after a comma; "" for every other text.
func inDigits(text string) string {
	for suffix, zeros := range map[string]string{"k": "000", "m": "000000", "g": "000000000"} {
		digits, ok := strings.CutSuffix(strings.ToLower(text), suffix)
		if ok && digits != "" && strings.Trim(digits, "0123456789") == "" {
			return ", such as " + digits + zeros
		}
	}
	return ""
}

// A Refusal is the error of a flag that is always refused. Its text is what to do instead.
type Refusal string

func (r Refusal) Error() string { return string(r) }
