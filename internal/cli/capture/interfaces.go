package capture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/pods"
)

// splitInterfaces returns the names and the patterns of -i.
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

// follows reports whether interfaces come and go during the capture. With --drops they do not: one
// program captures the packets that the stack drops on all interfaces.
func (o *Options) follows() bool { return o.interfaces.HasPattern() && !o.session.StackDrops }

// attachesLater reports whether programs are loaded and attached during the capture.
func (o *Options) attachesLater() bool {
	return o.follows() || o.session.GiveWay || o.session.FilterChanges
}

// checkPatterns finds mistakes in patterns of -i and --except, and refuses patterns with flags that
// need named interfaces.
func (o *Options) checkPatterns(given func(flag string) bool) error {
	onlyAny := len(o.interfaces) == 1 && o.interfaces[0] == frame.AnyInterface
	switch {
	case o.session.StackDrops && o.interfaces.HasPattern() && !onlyAny:
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
	if err := o.interfaces.Check(); err != nil {
		return err
	}
	refuse := func(flag, why string) error {
		return fmt.Errorf("%s and -i %s: %s: name the interfaces, each with its own -i", flag, o.interfaces.Pattern(), why)
	}
	switch {
	case o.session.Sink:
		return refuse("--sink", "it would cut off interfaces that nobody has named")
	case o.session.Stamp.IsCards():
		return refuse("-j "+o.stampName, "cards have clocks of their own")
	}
	return nil
}

// completeInterface offers the interfaces and "any".
func (o *Options) completeInterface(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, directive := o.Process.CompleteInterface(cmd, args, typed)
	return append(names, frame.AnyInterface), directive
}

// mostLabels is the upper bound for the interfaces in a message.
const mostLabels = 8

// someLabels joins the labels of sources. Of many it has the first ones and the number of others.
func someLabels(labels []string) string {
	if more := len(labels) - mostLabels; more > 1 {
		return fmt.Sprintf("%s and %d others", strings.Join(labels[:mostLabels], ","), more)
	}
	return strings.Join(labels, ",")
}

// withoutInterface returns the error of a capture without -i. words are the arguments.
func withoutInterface(p *frame.Process, words []string) error {
	if len(words) > 0 && outputs.IsCaptureName(words[0]) {
		return fmt.Errorf("%s is a file: read it with xdpcap read %s", words[0], message.ShellWord(words[0]))
	}
	return p.WhichInterface(", or -i any for all")
}

// podInterfaces returns the interfaces of the pod whose network namespace this process has entered:
// all that can be captured, except the loopback interface.
func podInterfaces() (names []string, err error) {
	names, err = frame.AllInterfaces()
	if err == nil && names == nil {
		err = errors.New("--pod: the pod has no Ethernet interface that is up: see xdpcap interfaces with the same --pod")
	}
	return names, err
}

// namePods adds the names of this host's pods to the options of the session. Captures work without
// them, so an error is only a notice with -v.
func (r *captureRun) namePods(o *capture.Options) {
	owners, err := r.o.Process.Pods()
	if err != nil && !errors.Is(err, pods.ErrNoRuntime) && r.o.printing.Verbose > 0 {
		r.notices.add(fmt.Errorf("names of pods are missing: %w", err))
	}
	o.PodOf = func(index int) capture.Pod {
		if p := owners.Of(index); p != nil {
			return capture.Pod{Namespace: p.Namespace, Name: p.Name}
		}
		return capture.Pod{}
	}
	for _, a := range owners.Addresses() {
		o.Names = append(o.Names, capture.Name{Address: a.Addr, Name: a.Pod.String()})
	}
}
