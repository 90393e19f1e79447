package capture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/escape"
)

// splitInterfaces returns which of the interfaces of -i are names and which are patterns.
func (o *Options) splitInterfaces() (names, patterns []string) {
	for _, name := range o.interfaces {
		switch {
		case name == frame.AnyInterface:
			patterns = append(patterns, "*")
		case frame.IsPattern(name):
			patterns = append(patterns, name)
		default:
			names = append(names, name)
		}
	}
	return names, patterns
}

// pattern is the first pattern among the interfaces of -i; "" = they are all named.
func (o *Options) pattern() string { return frame.Interfaces(o.interfaces).Pattern() }

// follows reports whether interfaces come and go during the capture. For packets that the stack
// throws away at all of them, there is one program.
func (o *Options) follows() bool { return o.pattern() != "" && !o.session.StackDrops }

// attachesLater reports whether programs are loaded and attached during the capture.
func (o *Options) attachesLater() bool {
	return o.follows() || o.session.GiveWay || o.session.FilterChanges
}

// checkPatterns finds mistakes in patterns, and refuses them with flags that need named interfaces.
func (o *Options) checkPatterns(given func(flag string) bool) error {
	switch {
	case o.session.StackDrops && o.pattern() != "" && (len(o.interfaces) > 1 || o.pattern() != frame.AnyInterface):
		return errors.New("--drops takes the packets of named interfaces, each with its own -i, or of all together: -i any alone")
	case !o.follows():
		return nil
	}
	if given("except") && len(o.session.Except) == 0 {
		return errors.New("--except: must not be empty")
	}
	for _, pattern := range o.session.Except {
		if err := frame.CheckPattern(pattern); err != nil {
			return fmt.Errorf("--except %q: %w", pattern, err)
		}
	}
	if err := frame.Interfaces(o.interfaces).Check(); err != nil {
		return err
	}
	refuse := func(flag, why string) error {
		return fmt.Errorf("%s and -i %s: %s: name the interfaces, each with its own -i", flag, o.pattern(), why)
	}
	switch {
	case o.session.Sink:
		return refuse("--sink", "it would cut off interfaces that nobody has named")
	case o.session.Stamp.IsCards():
		return refuse("-j "+o.stampName, "cards have clocks of their own")
	}
	return nil
}

// completeInterface offers the interfaces, and the word for all of them.
func (o *Options) completeInterface(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, directive := o.Process.CompleteInterface(cmd, args, typed)
	return append(names, frame.AnyInterface), directive
}

// printedMost is how many interfaces a message names.
const printedMost = 8

// someLabels names the first of many sources, and says how many others there are.
func someLabels(labels []string) string {
	if more := len(labels) - printedMost; more > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(labels[:printedMost], ","), more)
	}
	return strings.Join(labels, ",")
}

// withoutInterface is the error of a capture without an interface, which takes its words for a
// filter.
func withoutInterface(p *frame.Process, words []string) error {
	if len(words) > 0 && outputs.IsCaptureName(words[0]) {
		return fmt.Errorf("%s is a file: read it with xdpcap read %s", words[0], escape.ShellWord(words[0]))
	}
	return p.WhichInterface(", or -i any for all")
}
