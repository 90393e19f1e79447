package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// execute runs a command line. Flags may be abbreviated, as getopt_long(3) and so tcpdump allow:
// --dur means --duration, because no other flag begins like that.
func execute(p *frame.Process, files settingsFiles, args []string) (*cobra.Command, error) {
	for {
		root := newRoot(p, files)
		if err := checkDashes(root, args); err != nil {
			return root, err
		}
		root.SetArgs(args)
		frame.MendDescriptions(root, args)
		cmd, err := root.ExecuteC()
		short := (*abbreviation)(nil)
		if !errors.As(err, &short) || !short.expand(args) {
			return cmd, err
		}
	}
}

// checkDashes refuses a flag's long name behind one dash, whose letters would be taken for flags:
// -version for -v -e -r sion.
func checkDashes(root *cobra.Command, args []string) error {
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	for _, arg := range args {
		name, dashed := strings.CutPrefix(arg, "-")
		if name == "-" {
			break
		}
		name, _, _ = strings.Cut(name, "=")
		if f := root.Flags().Lookup(name); dashed && len(name) > 2 && f != nil && !f.Hidden {
			return fmt.Errorf("%s: did you mean --%s?", arg, name)
		}
	}
	return nil
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

// unknownFlag explains an error about an unknown flag of a command. If the flag abbreviates a known
// one, the error becomes an *abbreviation. If it resembles one, or other commands have it, the
// error gets a hint. Else it stays.
func unknownFlag(err error, cmd *cobra.Command) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	given, dashes := unknown.GetSpecifiedName(), "--"
	letters := unknown.GetSpecifiedShortnames()
	if letters != "" {
		given, dashes = given[:1], "-"
	}
	if instead := frame.InsteadOfFlag(cmd, given); instead != "" {
		return fmt.Errorf("unknown flag: %s%s: %s", dashes, given, instead)
	}
	if letters != "" {
		return err
	}
	var begins, names, others []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case len(f.Name) == 1: // a letter of another tool
		case strings.HasPrefix(f.Name, given):
			begins = append(begins, "--"+f.Name)
		case !f.Hidden:
			names = append(names, f.Name)
		}
	})
	for _, c := range commandsOf(cmd.Root()) {
		if f := c.Flags().Lookup(given); f != nil && !f.Hidden {
			others = append(others, c.CommandPath())
		}
	}
	slices.Sort(begins)
	switch {
	case given == "":
	case len(begins) == 1:
		return &abbreviation{given, strings.TrimPrefix(begins[0], "--")}
	case len(begins) > 1:
		return fmt.Errorf("--%s is the beginning of several flags: %s", given, strings.Join(begins, ", "))
	case len(others) > 0:
		return fmt.Errorf("%s has no flag --%s: it is one of %s", cmd.CommandPath(), given, strings.Join(others, ", "))
	}
	if near := message.DidYouMean("--", given, names); near != "" {
		return fmt.Errorf("unknown flag: --%s%s", given, near)
	}
	return err
}
