package capture

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// anyInterface is tcpdump's name for all interfaces.
const anyInterface = "any"

// isPattern reports whether a value of -i stands for all interfaces whose names match it. A name
// itself may have a bracket.
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

// pattern is the first pattern among the interfaces of -i; "" = they are all named.
func (o *Options) pattern() string {
	if i := slices.IndexFunc(o.interfaces, isPattern); i >= 0 {
		return o.interfaces[i]
	}
	return ""
}

// follows reports whether interfaces come and go during the capture.
func (o *Options) follows() bool { return o.pattern() != "" }

// checkPatterns finds mistakes in patterns, and refuses them with flags that need named interfaces.
func (o *Options) checkPatterns(given func(flag string) bool) error {
	if !o.follows() {
		return nil
	}
	if given("except") && len(o.session.Except) == 0 {
		return errors.New("--except: must not be empty")
	}
	for _, pattern := range o.session.Except {
		if err := checkPattern(pattern); err != nil {
			return fmt.Errorf("--except %q: %w", pattern, err)
		}
	}
	for _, pattern := range o.interfaces {
		if err := checkPattern(pattern); isPattern(pattern) && err != nil {
			return fmt.Errorf("-i %q: %w", pattern, err)
		}
	}
	refuse := func(flag, why string) error {
		return fmt.Errorf("%s and -i %s: %s: name the interfaces, each with its own -i", flag, o.pattern(), why)
	}
	switch {
	case o.session.Sink:
		return refuse("--sink", "it would cut off interfaces that nobody has named")
	case o.session.StackDrops:
		return fmt.Errorf("%w, or count what is lost at all of them: xdpcap drops",
			refuse("--drops", "its programs look for lost packets of one interface that is named"))
	case o.session.Stamp.IsCards():
		return refuse("-j "+o.stampName, "cards have clocks of their own")
	}
	return nil
}

// checkPattern finds mistakes in a pattern of names, or a name.
func checkPattern(pattern string) error {
	switch _, err := path.Match(pattern, ""); {
	case pattern == "":
		return errors.New("must not be empty")
	case strings.ContainsAny(pattern, " \t/"):
		return errors.New("no interface has such a name: separate names by commas, without spaces")
	case err != nil:
		return errors.New("a [ or a \\ in it is not complete, as in [a-z]")
	}
	return nil
}

// completeInterface offers the interfaces, and the word for all of them.
func (o *Options) completeInterface(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, directive := o.Process.CompleteInterface(cmd, args, typed)
	return append(names, anyInterface), directive
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
