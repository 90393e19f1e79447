// Package frame is what the commands have in common: types of flags, tables, remedies, messages.
package frame

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// NoArguments refuses the arguments of a command that takes only flags. It advises people who give
// a filter to count the matching packets with a capture.
var NoArguments = NoFilter("see how many packets match with xdpcap -i NAME --account")

// NoFilter refuses the arguments of a command that takes only flags. Its error helps people who
// give an interface without -i, or a filter. The advice for a filter ends with a command, to which
// the filter is added.
func NoFilter(advice string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return nil
		case isFilter(args) && cmd.Flags().Lookup("interface") != nil:
			return fmt.Errorf("%s takes no filter: %s %s", cmd.CommandPath(), advice, escape.ShellWord(strings.Join(args, " ")))
		case cmd.Flags().Lookup("interface") != nil:
			return fmt.Errorf("%s takes no argument %q: an interface is given as -i %s; see %s --help",
				cmd.CommandPath(), args[0], args[0], cmd.CommandPath())
		}
		return fmt.Errorf("%s takes no argument %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
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

// isFilter says whether words are a filter, and not an interface.
func isFilter(words []string) bool {
	_, err := xdp.InterfaceByName(words[0])
	return err != nil && isExpression(strings.Join(words, " "))
}

// isExpression says whether a text can be compiled as a filter.
func isExpression(text string) bool {
	_, err := filter.CompileRaw(text, filter.Options{Netmask: []byte{0, 0, 0, 0}})
	return err == nil
}

// CheckCommand refuses the misspelt name of a command, which would be taken for a filter: the first
// argument is nearly a command's name, and the arguments are no filter.
func CheckCommand(root *cobra.Command, args []string, text string) error {
	if len(args) == 0 {
		return nil
	}
	meant := MeantBy(root, args[0])
	ifi, notFound := xdp.InterfaceByName(args[0])
	if meant == "" && notFound != nil || isExpression(text) {
		return nil
	}
	if notFound == nil {
		return fmt.Errorf("%q is neither a command nor a filter: an interface is given as -i %s", args[0], ifi.Name)
	}
	return fmt.Errorf("%q is neither a command nor a filter: did you mean xdpcap %s?", args[0], meant)
}

// UnknownCommand is the error of help and man for a word that is no command.
func UnknownCommand(cmd *cobra.Command, word string) error {
	if meant := MeantBy(cmd.Root(), word); meant != "" {
		return fmt.Errorf("there is no command %q: did you mean %s %s?", word, cmd.CommandPath(), meant)
	}
	return fmt.Errorf("there is no command %q: see xdpcap --help", word)
}

// MeantBy is the command that a misspelt word probably means, or "".
func MeantBy(root *cobra.Command, word string) string {
	root.SuggestionsMinimumDistance = 1
	if len(word) > 5 {
		root.SuggestionsMinimumDistance = 2
	}
	for _, name := range root.SuggestionsFor(word) {
		return name
	}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && isSwapped(word, c.Name()) {
			return c.Name()
		}
	}
	return ""
}

// isSwapped reports whether a word becomes the other one when two of its neighbouring letters are
// swapped.
func isSwapped(word, other string) bool {
	for i := 1; i < len(word); i++ {
		if word[:i-1]+word[i:i+1]+word[i-1:i]+word[i+1:] == other {
			return true
		}
	}
	return false
}
