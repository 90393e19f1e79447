package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
)

// companionOptions are the flags for counters beside the captured packets.
type companionOptions struct {
	stats, latency bool
	count          countFlag
	protocols      counters.CountOptions // sizes and flows
}

func (o *companionOptions) flags() []frame.Flag {
	return []frame.Flag{
		{Name: "stats", Value: &o.stats, Help: "count packets and bytes per verdict of the XDP program that runs there, like xdpcap stats"},
		{Name: "count", Value: &o.count, Bare: "true", Help: "count packets and bytes per protocol, like xdpcap count"},
		{Name: "sizes", Value: &o.protocols.Sizes, Help: "also count packets by size; implies --count"},
		{Name: "flows", Value: &o.protocols.Flows, Help: "also show the `N` flows with most bytes; implies --count"},
		{Name: "latency", Value: &o.latency,
			Help: "measure how long the XDP program that runs there takes, per verdict, like xdpcap latency"},
	}
}

// counting has the names of the flags of companionOptions.
var counting = frame.NamesOf(new(companionOptions).flags())

// counts reports whether packets are counted per protocol.
func (o *companionOptions) counts() bool {
	return bool(o.count) || o.protocols.Sizes || o.protocols.Flows > 0
}

// flagOfTraced returns the given one of the flags that need a traced program.
func (o *companionOptions) flagOfTraced() string {
	if o.stats {
		return "--stats"
	}
	return "--latency"
}

func (o *companionOptions) isNone() bool { return !o.counts() && !o.stats && !o.latency }

// checkCompanions finds mistakes in the flags.
func (c *Options) checkCompanions(func(flag string) bool) error {
	o := &c.companions
	if o.protocols.Flows < 0 {
		return fmt.Errorf("--flows %d: must be 0 or more", o.protocols.Flows)
	}
	if o.protocols.Flows > 0 && c.Anonymizes() {
		return errors.New("--flows and --anonymize: the flows are shown with their addresses as they are: omit --flows, " +
			"or count beside the capture: xdpcap count --flows 10")
	}
	if o.count && len(c.filter.Words) > 0 && strings.Trim(c.filter.Words[0], "0123456789") == "" {
		return fmt.Errorf("--count %s: %w", c.filter.Words[0], errCountsProtocols)
	}
	return nil
}

const errCountsProtocols = frame.Refusal("it takes no number, because it counts packets per protocol; to end after a number of packets, use -c")

// A countFlag is the value of --count. It refuses a number, because in other commands --count takes
// one and ends them.
type countFlag bool

func (c *countFlag) String() string {
	if *c {
		return "true"
	}
	return "false"
}
func (c *countFlag) Type() string { return "bool" }

func (c *countFlag) Set(s string) error {
	if !slices.Contains([]string{"true", "false"}, s) {
		return errCountsProtocols
	}
	*c = s == "true"
	return nil
}
