package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/spelling"
)

// execute runs a command line. Flags may be abbreviated, as getopt_long(3) and so tcpdump allow:
// --dur means --duration, because no other flag begins like that.
func execute(p *frame.Process, files settingsFiles, args []string) (*cobra.Command, error) {
	for {
		root := newRoot(p, files)
		root.SetArgs(args)
		frame.MendDescriptions(root, args)
		cmd, err := root.ExecuteC()
		short := (*abbreviation)(nil)
		if !errors.As(err, &short) || !short.expand(args) {
			return cmd, err
		}
	}
}

// An abbreviation is the error that only the beginning of a flag's name was given.
type abbreviation struct{ given, whole string }

func (a *abbreviation) Error() string {
	return fmt.Sprintf("unknown flag: --%s: did you mean --%s?", a.given, a.whole)
}

// expand writes the flag in full. It returns false if the arguments do not have it.
func (a *abbreviation) expand(args []string) (found bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, value, has := strings.Cut(arg, "=")
		if name != "--"+a.given {
			continue
		}
		args[i], found = "--"+a.whole, true
		if has {
			args[i] += "=" + value
		}
	}
	return found
}

// unknownFlag explains an error about an unknown flag. If the flag abbreviates a known one, the
// error becomes an *abbreviation. If it resembles one, the error gets a hint. Else it stays.
func unknownFlag(err error, flags *pflag.FlagSet) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	given := unknown.GetSpecifiedName()
	var begins []string
	near, distance := "", 1+min(2, len(given)/4) // every name is near a short one
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case len(f.Name) == 1: // a letter of another tool
		case strings.HasPrefix(f.Name, given):
			begins = append(begins, "--"+f.Name)
		default:
			if d := spelling.Distance(given, f.Name); !f.Hidden && d < distance {
				near, distance = f.Name, d
			}
		}
	})
	slices.Sort(begins)
	switch {
	case given == "":
	case len(begins) == 1:
		return &abbreviation{given, strings.TrimPrefix(begins[0], "--")}
	case len(begins) > 1:
		return fmt.Errorf("--%s is the beginning of several flags: %s", given, strings.Join(begins, ", "))
	case near != "":
		return fmt.Errorf("unknown flag: --%s: did you mean --%s?", given, near)
	}
	return err
}
