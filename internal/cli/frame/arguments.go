// Package frame is what the commands have in common: types of flags, tables, remedies, messages.
package frame

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// NoArguments refuses the arguments of a command that takes only flags. Its error helps people who
// give an interface without -i, or a filter: it advises to count the matching packets with a
// capture.
func NoArguments(cmd *cobra.Command, args []string) error {
	hasInterface := cmd.Flags().Lookup("interface") != nil
	switch {
	case len(args) == 0:
		return nil
	case hasInterface && isFilter(args):
		return fmt.Errorf("%s takes no filter: see how many packets match with xdpcap -i %s --account %s",
			cmd.CommandPath(), interfaceOf(cmd), message.ShellWord(strings.Join(args, " ")))
	case hasInterface:
		return fmt.Errorf("%s takes no argument %q: an interface is given as -i %[2]s; see %[1]s --help",
			cmd.CommandPath(), args[0])
	}
	return fmt.Errorf("%s takes no argument %q; see %[1]s --help", cmd.CommandPath(), args[0])
}

// FilterArguments refuses an interface among the arguments of a command that takes a filter.
func FilterArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	ifi, err := xdp.InterfaceByName(args[0])
	if err != nil || isExpression(strings.Join(args, " ")) {
		return nil
	}
	return fmt.Errorf("%s: %q is no filter: an interface is given as -i %s; see %[1]s --help", cmd.CommandPath(), args[0], ifi.Name)
}

// isFilter reports whether words are a filter, and not an interface.
func isFilter(words []string) bool {
	_, err := xdp.InterfaceByName(words[0])
	return err != nil && isExpression(strings.Join(words, " "))
}

// isExpression reports whether a text can be compiled as a filter.
func isExpression(text string) bool {
	_, err := filter.CompileRaw(text, filter.Options{Netmask: []byte{0, 0, 0, 0}})
	return err == nil || errors.Is(err, filter.ErrNoSet)
}
