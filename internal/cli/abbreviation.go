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

// execute runs a command line. Flags may be abbreviated, as in getopt_long(3): --dur is --duration,
// because no other flag begins like that. cobra cannot do that: an abbreviation is an error of its
// parser, after which the arguments are corrected and parsed again.
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

// checkDashes refuses a flag's long name after a single dash, which pflag would read as several
// flags: -version as -v -e -r sion.
func checkDashes(root *cobra.Command, args []string) error {
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, hasDash := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if f := root.Flags().Lookup(name); hasDash && len(name) > 2 && f != nil && !f.Hidden {
			return fmt.Errorf("%s: did you mean --%s?", arg, name)
		}
	}
	return nil
}

// An abbreviation is the error that only a unique prefix of a flag's name was given.
type abbreviation struct{ given, whole string } // without dashes

func (a *abbreviation) Error() string {
	return fmt.Sprintf("unknown flag: --%s: did you mean --%s?", a.given, a.whole)
}

// expand replaces the abbreviation in the arguments by the whole name. It returns false if they do
// not have it.
func (a *abbreviation) expand(args []string) (found bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, _, _ := strings.Cut(arg, "="); name == "--"+a.given {
			args[i], found = "--"+a.whole+strings.TrimPrefix(arg, name), true
		}
	}
	return found
}

// unknownFlag explains an error about an unknown flag of a command. If the flag abbreviates a known
// one, the result is an *abbreviation. If it resembles one, or other commands have it, the error
// gets a hint. Any other error is returned unchanged.
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
