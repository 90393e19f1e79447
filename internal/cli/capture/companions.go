package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
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

// companions are the counters of a capture: programs of internal/meter that run within those of the
// capture, for each packet at the hook. After capture.Open its methods may be called concurrently.
type companions struct {
	options *companionOptions
	began   time.Time // when the capture began
	places  []string  // names of interfaces with a direction, where packets are counted
	exits   map[string]capture.Companions
	all     []*companion
}

// A companion has counters of one kind at a source.
type companion struct {
	source capture.Source
	counters.AnyCounter
}

// join is capture.Options.Companions: it is called for each source, for the entry of a program
// before its exit, opens the counters and returns their programs.
func (c *companions) join(src capture.Source) (with capture.Companions, err error) {
	if src.Hook == capture.Exit {
		return c.exits[src.Name], nil
	}
	at := placeOf(src)
	if slices.Contains(c.places, at) {
		return with, fmt.Errorf("%s: several programs are traced there, but a counter is for one of them: choose it with --program", src.Name)
	}
	c.places = append(c.places, at)
	o := c.options
	if (o.stats || o.latency) && src.Hook == capture.XDP {
		return with, fmt.Errorf("%s: %s runs no XDP program, and only a program gives verdicts: omit %[1]s, or "+
			"start the program before the capture", o.flagOfTraced(), src.Name)
	}
	var exit capture.Companions
	if o.counts() {
		if err := c.joinCount(src, &with, &exit); err != nil {
			return with, err
		}
	}
	if src.Hook == capture.Entry {
		err = c.joinTraced(src, &with, &exit)
		c.exits[src.Name] = exit
	}
	return with, err
}

// placeOf returns the interface and the direction of a source.
func placeOf(src capture.Source) string { return src.Name + " " + src.Direction().String() }

// joinCount opens the counters of protocols.
func (c *companions) joinCount(src capture.Source, with, exit *capture.Companions) error {
	o, d := &c.options.protocols, src.Direction()
	p, first, last, err := meter.EmbedProtocols(meter.ProtocolsOptions{
		Interface: src.Name, Sizes: o.Sizes, Flows: o.Flows > 0, Sent: d == capture.Out, AtIngress: src.Hook == capture.Ingress,
	}, src.Target)
	if err != nil {
		return err
	}
	with.First = append(with.First, first)
	if last != nil {
		exit.Last = append(exit.Last, last)
	}
	c.all = append(c.all, &companion{src, o.Counter(p, d, src.Name)})
	return nil
}

// joinTraced opens the counters that need a traced program. They count at its exit.
func (c *companions) joinTraced(src capture.Source, with, exit *capture.Companions) error {
	program := src.Target
	src.Hook = capture.Exit
	if c.options.stats {
		a, counts, err := meter.EmbedActions(src.Name, program)
		if err != nil {
			return err
		}
		exit.Last = append(exit.Last, counts)
		c.all = append(c.all, &companion{src, new(counters.StatsOptions).Counter(a, src.Name)})
	}
	if c.options.latency {
		m, enters, exits, err := meter.EmbedLatency(src.Name, program)
		if err != nil {
			return err
		}
		with.Last, exit.First = append(with.Last, enters), append(exit.First, exits)
		c.all = append(c.all, &companion{src, new(counters.LatencyOptions).Counter(m, nil, src.Name)})
	}
	return nil
}

// String is the title of the counters' table.
func (c *companion) String() string {
	if c.source.Hook == capture.Exit {
		return fmt.Sprintf("%s, XDP program %v", c.source.Name, c.source.Target)
	}
	return fmt.Sprintf("%s, %s", c.source.Name, directionWords[c.source.Direction()])
}

// isAbout reports whether the statistics of a source in a file contain the counters. It is true for
// the source where the packets are counted. If that source is not captured, it is true for the
// other one of the same interface and direction.
func (c *companion) isAbout(src capture.Source, all []capture.Source) bool {
	if placeOf(src) != placeOf(c.source) {
		return false
	}
	return src.Hook == c.source.Hook ||
		!slices.ContainsFunc(all, func(s capture.Source) bool { return s.Name == c.source.Name && s.Hook == c.source.Hook })
}

// companionReports are the reports of all counters, as objects and as tables.
type companionReports struct {
	CompanionKeys
	tables []func(*frame.Page)
}

// reports reads all counters.
func (c *companions) reports() (all companionReports, err error) {
	for _, one := range c.all {
		r, err := one.ReportSince(c.began)
		if err != nil {
			return all, err
		}
		all.add(r)
		all.tables = append(all.tables, func(p *frame.Page) { counters.WriteBlock(p, "total", one.String(), r) })
	}
	return all, nil
}

// CompanionKeys are the counters in a capture's object: an object for each interface and direction,
// with the keys of the command.
type CompanionKeys struct {
	Stats   []*counters.StatsReport   `json:"stats,omitempty"`
	Count   []*counters.CountReport   `json:"count,omitempty"`
	Latency []*counters.LatencyReport `json:"latency,omitempty"`
}

func (k *CompanionKeys) add(r counters.Report) {
	switch r := r.(type) {
	case *counters.StatsReport:
		k.Stats = append(k.Stats, r)
	case *counters.CountReport:
		k.Count = append(k.Count, r)
	case *counters.LatencyReport:
		k.Latency = append(k.Latency, r)
	}
}

// maxComment is about the longest comment that a block of a file can have.
const maxComment = 1<<16 - 64

// comments returns the counters for a file's statistics of a source, as objects of --json, one for
// each kind. An object that is too long for a comment omits protocols and flows.
func (c *companions) comments(src capture.Source, all []capture.Source) (comments []string) {
	for _, one := range c.all {
		if !one.isAbout(src, all) {
			continue
		}
		r, err := one.ReportSince(c.began)
		if err != nil {
			continue // the end of the capture reports the error
		}
		var k CompanionKeys
		k.add(r)
		text, err := json.Marshal(k)
		if long, ok := r.(*counters.CountReport); ok && len(text) > maxComment {
			long.Protocols, long.Flows = []counters.ClassRate{}, nil
			text, err = json.Marshal(k)
		}
		if err == nil {
			comments = append(comments, string(text))
		}
	}
	return comments
}

func (c *companions) collectors() (list []prometheus.Collector) {
	for _, one := range c.all {
		list = append(list, one.Collector())
	}
	return list
}

// follow evicts entries without recent packets from the counters' tables. It is called about once
// a second.
func (c *companions) follow() (err error) {
	for _, one := range c.all {
		_, failed := one.Follow()
		err = errors.Join(err, failed)
	}
	return err
}

func (c *companions) close() {
	for _, one := range c.all {
		one.Close()
	}
}
