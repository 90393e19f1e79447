package capture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// anyInterface is tcpdump's name for all interfaces.
const anyInterface = "any"

// isPattern tells whether a name that -i was given stands for all interfaces that have such names.
// A name itself may have a bracket.
func isPattern(name string) bool {
	_, after, _ := strings.Cut(name, "[")
	return name == anyInterface || strings.ContainsAny(name, "*?") || strings.Contains(after, "]")
}

// splitInterfaces returns which of the interfaces of -i are names and which are patterns.
func (o *Options) splitInterfaces() (names, patterns []string) {
	for _, name := range o.interfaces {
		switch {
		case name == anyInterface:
			patterns = append(patterns, "*")
		case isPattern(name):
			patterns = append(patterns, name)
		default:
			names = append(names, name)
		}
	}
	return names, patterns
}

// follows tells whether interfaces come and go during the capture.
func (o *Options) follows() bool {
	_, patterns := o.splitInterfaces()
	return len(patterns) > 0
}

// checkPatterns refuses what is for interfaces that are named.
func (o *Options) checkPatterns(given func(flag string) bool) error {
	if !o.follows() {
		if given("except") {
			return errors.New("--except: it omits interfaces that a pattern of -i finds: add -i any or -i 'veth*'")
		}
		return nil
	}
	const name = ": name the interfaces, each with its own -i"
	switch {
	case o.sink:
		return errors.New("--sink and a pattern of -i: it would cut off interfaces that nobody has named" + name)
	case o.promiscuous:
		return errors.New("-P and a pattern of -i: as with tcpdump, promiscuous mode is for interfaces that are named" + name)
	case o.drops.on:
		return errors.New("--drops and a pattern of -i: the programs of a lost packet are attached for one interface" + name + ", or see xdpcap drops for all")
	case o.card.stamp.IsCards():
		return errors.New("-j " + o.card.stampName + " and a pattern of -i: cards have clocks of their own" + name)
	case !o.companions.isNone():
		return errors.New("--stats, --count and a pattern of -i: counters beside the packets are for interfaces that are there from the beginning" + name)
	}
	return nil
}

// completeInterface offers the interfaces, and the word for all of them.
func (o *Options) completeInterface(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, directive := o.Process.CompleteInterface(cmd, args, typed)
	return append(names, anyInterface), directive
}

// printedMost is how many interfaces the first message names.
const printedMost = 8

// someLabels names the first of many sources, and says how many others there are.
func someLabels(labels []string) string {
	if more := len(labels) - printedMost; more > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(labels[:printedMost], ","), more)
	}
	return strings.Join(labels, ",")
}
