package counters

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// StatsOptions are the flags of the command stats: packets and bytes per verdict of an XDP program.
type StatsOptions struct {
	Options
	action    string // the verdict of the program that stats attaches
	yes       bool   // allow it even if it cuts off this machine
	mode      string // --xdp-mode
	perQueue  bool
	by        string // verdict or reason; "" = by reason if there is a map
	reasonMap string
}

const statsHelp = `stats counts packets and bytes per XDP verdict. A program that runs on the interface is counted at
its exit, for the packets of this interface, and stays unchanged. Where no program runs, stats
attaches one that does --action. A libxdp dispatcher is counted as a whole; --program chooses one of
the programs behind it. With -i any or a pattern such as 'veth*' only interfaces that run a program
are counted, also those that come later.`

const statsExamples = `  xdpcap stats -i eth0                          a table per second; Ctrl-C prints the totals
  xdpcap stats -i eth0 --count 10 --json        ten objects for a script
  xdpcap stats -i eth0 --program firewall       behind a libxdp dispatcher, what this one returns
  xdpcap stats -i eth0 --reason-map reasons     also why it drops, as it writes into this map
  xdpcap stats -i eth0 --listen :9432           for Prometheus, too
  xdpcap stats -q --listen :9432                for Prometheus alone, on all interfaces`

// NewStats returns the command.
func NewStats(p *frame.Process) *cobra.Command {
	o := StatsOptions{Options: Options{Process: p}}
	return newCommand(&o.Options, &cobra.Command{
		Use:     "stats -i interface [flags]",
		Short:   "Count packets and bytes per XDP verdict",
		Long:    statsHelp,
		Example: statsExamples,
		Args:    frame.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}, flagGroup{Title: "Where", Flags: o.whereFlags()}, flagGroup{Title: "What", Flags: o.whatFlags()})
}

func (o *StatsOptions) whereFlags() []frame.Flag {
	return []frame.Flag{
		o.interfaceFlag("count on this `interface`, a pattern such as 'veth*', or any (default with --listen: on all)"),
		o.programFlag(),
		{Name: "action", Value: &o.action, Default: "pass", Words: []string{"pass", "drop", "abort"},
			Help: "where no program runs, give packets this `verdict`: pass, drop or abort"},
		{Name: "yes", Value: &o.yes, Help: "allow --action even if it cuts off this machine"},
		frame.ModeFlag(&o.mode),
		{Name: "direction", Letter: "Q", Value: verdictDirection{}, Help: "what is received, `in`", Hidden: true}, // it changes nothing
	}
}

func (o *StatsOptions) whatFlags() []frame.Flag {
	return []frame.Flag{
		{Name: "per-queue", Value: &o.perQueue, Help: "count each receive queue by itself"},
		{Name: "by", Value: (*frame.Name)(&o.by), Words: []string{"verdict", "reason"},
			Help: "count by `verdict` alone (the default), or what is dropped also by the reason that the program gives (reason)"},
		frame.ReasonMapFlag(&o.reasonMap),
	}
}

// checkReasons finds mistakes in the flags about reasons. --by verdict leaves --reason-map without
// effect, because that may be a setting.
func (o *StatsOptions) checkReasons() error {
	switch {
	case o.by != "" && o.by != "verdict" && o.by != "reason":
		return fmt.Errorf("--by %s: must be verdict or reason", o.by)
	case o.by == "reason" && o.reasonMap == "":
		return errors.New("--by reason: name the map into which the program writes its reasons: add --reason-map")
	}
	return nil
}

func (o *StatsOptions) run() error {
	options, err := o.meterOptions()
	if err != nil {
		return err
	}
	g := frame.Guard{Yes: o.yes}
	if options.Verdict != xdp.Pass {
		g.Flag = "--action " + o.action
	}
	return run(&o.Options, g, func(iface string) (AnyCounter, error) {
		options := options
		options.Interface = iface
		if o.perQueue {
			ifi, err := xdp.InterfaceByName(iface)
			if err != nil {
				return nil, err
			}
			options.Queues = ifi.RxQueues
		}
		a, err := meter.OpenActions(options)
		if err != nil {
			return nil, err
		}
		return o.Counter(a, a.Interface().Name), nil
	})
}

// Counter is a meter of an interface, as the command prints and exports it.
func (o *StatsOptions) Counter(a *meter.Actions, iface string) *Counter[meter.ActionCounts] {
	return newCounter(a, statsMetrics(o, iface), func(i statsInterval) *StatsReport { return newStatsReport(o, iface, i) })
}

// meterOptions returns the flags as options of internal/meter, for any interface.
func (o *StatsOptions) meterOptions() (a meter.ActionsOptions, err error) {
	a.Program, o.tracesOnly, o.instead = o.Program, true, "xdpcap drops -i IF counts its drops"
	if a.Verdict, err = parseAction(o.action); err != nil {
		return a, err
	}
	var given []string
	if a.Verdict != xdp.Pass {
		given = append(given, "--action "+o.action)
	}
	if err := o.checkReasons(); err != nil {
		return a, err
	}
	if o.by != "verdict" && o.reasonMap != "" {
		a.ReasonMap = o.reasonMap
		given = append(given, "--reason-map")
	}
	if err := o.checkInterfaces(given...); err != nil {
		return a, err
	}
	if a.Mode, err = capture.ParseMode(o.mode); err != nil {
		return a, fmt.Errorf("--xdp-mode: %w", err)
	}
	return a, nil
}

// parseAction reads --action: a verb, or a verdict, also in the kernel's spelling.
func parseAction(name string) (xdp.Verdict, error) {
	switch strings.TrimPrefix(strings.ToLower(name), "xdp_") {
	case "pass":
		return xdp.Pass, nil
	case "drop":
		return xdp.Drop, nil
	case "abort", "aborted":
		return xdp.Aborted, nil
	}
	return 0, fmt.Errorf("--action %q: must be pass, drop or abort", name)
}

// statsMetrics have the label verdict, and with --per-queue and --per-cpu also queue and cpu.
func statsMetrics(o *StatsOptions, iface string) metrics.Set[meter.ActionCounts] {
	labels := []string{"verdict"}
	if o.perQueue {
		labels = append(labels, "queue")
	}
	if o.perCPU {
		labels = append(labels, "cpu")
	}
	set := metrics.Set[meter.ActionCounts]{Labels: map[string]string{"interface": iface}}
	set.Tallies("xdpcap_verdict_packets_total", "by the XDP program's verdict", labels, o.eachTally)
	set.Count("xdpcap_reason_packets_total", "Packets that the XDP program dropped, by the reason that it gave.", []string{"verdict", "reason"},
		func(c meter.ActionCounts, send metrics.SendValue) {
			for r, t := range c.Reasons {
				send(float64(t.Packets), r.Verdict.SlotName(), reasonName(r))
			}
		})
	return set
}

// eachTally sends every tally of a snapshot with its labels. It omits queues and CPUs that have
// seen no packet, because there may be many.
func (o *StatsOptions) eachTally(c meter.ActionCounts, send func(meter.Tally, ...string)) {
	each := func(perCPU []meter.VerdictTallies, sum meter.VerdictTallies, queue ...string) {
		eachCPU(&o.Options, perCPU, sum, func(tallies meter.VerdictTallies, cpu ...string) {
			labels := slices.Concat(queue, cpu)
			if len(labels) > 0 && tallies == (meter.VerdictTallies{}) {
				return
			}
			for i, t := range tallies {
				send(t, append([]string{verdictName(i)}, labels...)...)
			}
		})
	}
	if !o.perQueue {
		perCPU := make([]meter.VerdictTallies, c.CPUs())
		for cpu := range perCPU {
			perCPU[cpu] = c.CPU(cpu)
		}
		each(perCPU, c.Total())
		return
	}
	for q, perCPU := range c.Queues {
		each(perCPU, c.Queue(q), queueName(c, q))
	}
}

// verdictDirection is a value of -Q that accepts only in: only received packets have verdicts.
type verdictDirection struct{}

func (verdictDirection) String() string { return capture.In.String() }
func (verdictDirection) Type() string   { return "direction" }

func (verdictDirection) Set(s string) error {
	d, err := capture.ParseDirection(strings.ToLower(s))
	if err == nil && d != capture.In {
		err = frame.Refusal("sent packets have no verdict, because XDP programs see only received ones: " +
			"xdpcap count -Q " + d.String() + " counts them by protocol")
	}
	return err
}
