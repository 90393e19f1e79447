package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// settableFlags returns the flags of all commands that can be set in files and in the environment,
// without those of other tools. If several commands have a flag, its exceptions are united.
func settableFlags(root *cobra.Command) map[string]frame.Settings {
	flags := make(map[string]frame.Settings)
	for _, c := range commandsOf(root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if settable(f) {
				flags[f.Name] |= frame.SettingsOf(f)
			}
		})
	}
	return flags
}

// commandsOf returns the capture, which is the root, and then all other commands.
func commandsOf(root *cobra.Command) []*cobra.Command {
	return append([]*cobra.Command{root}, root.Commands()...)
}

func settable(f *pflag.Flag) bool {
	return f != nil && f.Annotations[frame.GroupKey] != nil && frame.SettingsOf(f)&frame.CommandLineOnly == 0
}

// apply sets the flags of a command from files and the environment, except flags that the command
// line sets, flags with a rival that it sets, and flags with an exception in over.
func (s *settings) apply(cmd *cobra.Command, over frame.Settings) error {
	all, notices, err := s.Files.Read(settableFlags(cmd.Root()))
	if err != nil {
		return err
	}
	if over&frame.NotForWireshark == 0 { // Wireshark shows what is on stderr as an error
		s.print(cmd, notices)
	}
	isTyped := func(name string) bool {
		return cmd.Flags().Changed(name) || name == frame.FilterWords && cmd.Flags().NArg() > 0
	}
	given := make(map[string]bool) // before the first setting is applied, which also changes flags
	cmd.Flags().VisitAll(func(f *pflag.Flag) { given[f.Name] = f.Changed || slices.ContainsFunc(frame.RivalsOf(f), isTyped) })
	for _, values := range byFlag(all) {
		flag := cmd.Flags().Lookup(values[0].Flag)
		if !settable(flag) || given[flag.Name] || frame.SettingsOf(flag)&over != 0 {
			continue
		}
		a := values.apply(cmd.Root())
		switch refusal := a.refusals[cmd.Name()]; {
		case len(a.takers) == 0:
			return refusal
		case refusal != nil:
			frame.Forget(flag)
		}
	}
	return nil
}

// print prints notices, unless stderr has only objects of --json.
func (s *settings) print(cmd *cobra.Command, notices []string) {
	if f := cmd.Flags().Lookup("json"); f != nil && f.Changed && f.Value.String() == frame.StderrFile {
		return
	}
	for _, notice := range notices {
		frame.Say(s.Process.Stderr, "%s", notice)
	}
}

// flagSettings are the settings of one flag. Only a list has several.
type flagSettings []setting

// byFlag groups settings by their flags, in the order of each flag's first setting.
func byFlag(all []setting) (flags []flagSettings) {
	for _, s := range all {
		at := slices.IndexFunc(flags, func(f flagSettings) bool { return f[0].Flag == s.Flag })
		if at < 0 {
			at, flags = len(flags), append(flags, nil)
		}
		flags[at] = append(flags[at], s)
	}
	return flags
}

// A fit has the commands that take all values of a flag's settings. Flags of one name may differ:
// --count has no value in a capture, and a number in the commands that count. A setting applies to
// the commands that take all of its values.
type fit struct {
	takers   []string
	refusals map[string]error // by the commands that have the flag but refuse a value
	first    error            // one of refusals
}

// apply sets the flags of all commands to the values, although only one command runs, to find out
// which commands take them. A flag that refuses its second value may already have its first.
//
// Some values fit flags of several kinds: 1 is a number, and also true for a flag without a value;
// two lines are a list, and a flag with one value would take the second. So if the kinds differ, a
// flag without a value takes only true and false, and only a list takes several values.
func (values flagSettings) apply(root *cobra.Command) fit {
	a := fit{refusals: make(map[string]error)}
	name, last := values[0].Flag, values[len(values)-1]
	commands := slices.DeleteFunc(commandsOf(root), func(c *cobra.Command) bool { return !settable(c.Flags().Lookup(name)) })
	kind := func(c *cobra.Command) flagKind { return kindOf(c.Flags().Lookup(name)) }
	slices.SortStableFunc(commands, func(a, b *cobra.Command) int { return cmp.Compare(kind(b), kind(a)) }) // lists first
	differ := kind(commands[0]) != kind(commands[len(commands)-1])
	several := false // a list has taken several values
	for _, c := range commands {
		flag := c.Flags().Lookup(name)
		err := values.applyTo(c)
		switch {
		case err != nil:
		case kind(c) == severalValues:
			several = several || len(flag.Value.(pflag.SliceValue).GetSlice()) > 1
		case several:
			err = refused(last, c, fmt.Errorf("%s %s: one of several values, and it takes only one", frame.FlagName(flag), last.Value))
		case kind(c) == noValue && differ && last.Value != "true" && last.Value != "false":
			err = refused(last, c, fmt.Errorf("%s %s: must be true or false", frame.FlagName(flag), last.Value))
		}
		if err == nil {
			a.takers = append(a.takers, c.Name())
			continue
		}
		a.refusals[c.Name()] = err
		a.first = cmp.Or(a.first, err)
	}
	return a
}

// A flagKind is how many values a flag takes.
type flagKind int

const (
	noValue flagKind = iota // a bool
	oneValue
	severalValues
)

func kindOf(f *pflag.Flag) flagKind {
	if _, list := f.Value.(pflag.SliceValue); list {
		return severalValues
	}
	if f.Value.Type() == "bool" {
		return noValue
	}
	return oneValue
}

// applyTo sets the flag of a command to the values.
func (values flagSettings) applyTo(c *cobra.Command) error {
	f := c.Flags().Lookup(values[0].Flag)
	for _, s := range values {
		value := s.Value
		if value == "true" && f.NoOptDefVal != "" {
			value = f.NoOptDefVal // as if the flag was given without a value
		}
		if err := c.Flags().Set(s.Flag, value); err != nil {
			return refused(s, c, frame.InPlainWords(err))
		}
	}
	return c.Flags().SetAnnotation(values[0].Flag, frame.SettingKey, []string{values[0].From})
}

// refused returns the error that a command does not take a value.
func refused(s setting, c *cobra.Command, err error) error {
	return fmt.Errorf("%s: %w (in %s)", s.From, err, c.CommandPath())
}
