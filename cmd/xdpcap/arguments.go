package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
)

// noArguments refuses arguments of a command that takes flags alone. An interface is what people
// give.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("interface") != nil:
		return fmt.Errorf("%s takes no argument %q: an interface is given as -i %s; see %s --help",
			cmd.CommandPath(), args[0], args[0], cmd.CommandPath())
	}
	return fmt.Errorf("%s takes no argument %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
}

// checkCommand refuses the misspelt name of a command, which would be taken for a filter: a first
// argument that is nearly one, of arguments that are no filter.
func checkCommand(root *cobra.Command, args []string, text string) error {
	if len(args) == 0 {
		return nil
	}
	root.SuggestionsMinimumDistance = 1
	meant := root.SuggestionsFor(args[0])
	if len(meant) == 0 {
		return nil
	}
	if _, err := filter.CompileRaw(text, filter.Options{Netmask: []byte{0, 0, 0, 0}}); err == nil {
		return nil
	}
	return fmt.Errorf("%q is neither a command nor a filter: did you mean xdpcap %s?", args[0], meant[0])
}
