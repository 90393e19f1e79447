package counters

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// CountOptions are the flags of the command count: packets and bytes per protocol, size and flow.
type CountOptions struct {
	Options
	directions   string // -Q, as given
	direction    capture.Direction
	at, mode     string // --at and --xdp-mode
	Sizes        bool
	Flows        int      // the number of rows; 0 = flows are not counted
	verdictNames []string // --verdict, as given
	verdicts     []xdp.Verdict
	filter       filters.Options
	variant      string
}

const countHelp = `count counts packets and bytes per protocol: for IPv4 and IPv6 by the upper-layer protocol, after up
to two VLAN tags and IPv6 extension headers, and for everything else by the EtherType. A program
that runs on the interface is traced at its entry and stays unchanged; --program chooses one of
several behind a libxdp dispatcher. Where no program runs, count attaches one that passes every
packet. A filter chooses the packets that are counted, as xdpcap help filter explains it.

--flows shows the conversations with most bytes in the last interval, as they came in and with the
verdict that the traced program gave their packets. FROM sends more than TO. PACKETS and BYTES are
those of both directions since the start; BIT/S is the rate from FROM to TO, and BACK that of the
other direction, where packets of it are counted, too. The memory for flows has a fixed size, so a
conversation may have had more than BYTES before it found room there: AT MOST is the most that it
can have had. --verdict counts only packets with these verdicts, so that they get all of the memory:
who is dropped, and how much.

-i any and patterns such as 'veth*' count at all interfaces with such a name, also those that come
later: each has a table, and those without a packet are one line. An XDP program of its own is then
attached only to cards, and other interfaces are counted at tc (--at auto).

-Q out counts what the interface sends, at egress, as the stack hands it over: a packet that the
card cuts into segments counts as one. Other tcx or tc programs there see the same packets as
before. -Q inout counts each direction by itself, and shows each conversation once.`

const countExamples = `  xdpcap count -i eth0                          a table per second; Ctrl-C prints the totals
  xdpcap count -i eth0 --sizes --flows 10       sizes of packets, and the ten largest flows, too
  xdpcap count -i eth0 --flows 10 --verdict drop    who is dropped by the program that runs there
  xdpcap count -i eth0 --flows 10 'tcp port 443'    the same of what matches
  xdpcap count -i 'veth*' --flows 3             at all interfaces with such a name
  xdpcap count -i eth0 -Q inout                 what it sends, too, in a table of its own
  xdpcap count -i eth0 --program balancer       behind a libxdp dispatcher, what reaches this one
  xdpcap count -i eth0 --interval 10s --json    for a script`

// NewCount returns the command.
func NewCount(p *frame.Process) *cobra.Command {
	o := CountOptions{Options: Options{Process: p}}
	return newCommand(&o.Options, &cobra.Command{
		Use:     "count -i interface [flags] [filter]",
		Short:   "Count packets and bytes per protocol, size and flow",
		Long:    countHelp,
		Example: countExamples,
		Args:    frame.FilterArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.filter.Words = args
			return o.run(cmd)
		},
	}, flagGroup{Title: "Where", Flags: o.whereFlags()}, flagGroup{Title: "What", Flags: o.whatFlags()})
}

func (o *CountOptions) whereFlags() []frame.Flag {
	return []frame.Flag{
		o.interfaceFlag("count on this `interface`, a pattern such as 'veth*', or any (default with --listen: on all)"),
		{Name: "direction", Letter: "Q", Value: &o.directions, Default: "in", Words: []string{"in", "out", "inout"},
			Help: "take what the interface receives (`in`), what it sends (out), or both (inout)"},
		{Name: "at", Value: &o.at, Default: "xdp", Words: []string{"xdp", "tc", autoHook},
			Help: "count received packets at this `hook`: xdp, tc (after XDP; resets no card, and sees what tc redirects), or auto (tc where xdp costs more), which is the default with any and patterns"},
		o.programFlag(),
		frame.ModeFlag(&o.mode),
	}
}

func (o *CountOptions) whatFlags() []frame.Flag {
	flags := append([]frame.Flag{
		{Name: "sizes", Value: &o.Sizes, Help: "also count packets by size"},
		{Name: "flows", Value: &o.Flows, Help: "also show the `N` flows with most bytes; by verdict if a program is traced"},
		{Name: "verdict", Value: (*frame.List)(&o.verdictNames), Words: countVerdicts(), List: true,
			Help: "count only packets with these `verdicts` of the traced program: drop,aborted,..."},
	}, o.filter.Flags()...)
	return append(flags, frame.Flag{Name: "variant", Value: &o.variant, Default: "percpu", Words: []string{"ultra", "percpu", "naive"},
		Help: "count by the variant of this `name`: percpu, ultra or naive; all give the same numbers"})
}

func (o *CountOptions) run(cmd *cobra.Command) error {
	if err := o.filter.Read(o.Process.UntilSignal()); err != nil {
		return err
	}
	o.filter.Warn(cmd.ErrOrStderr())
	if o.filter.Dump > 0 {
		return o.filter.PrintFor(cmd.OutOrStdout(), 0, o.directions)
	}
	options, err := o.meterOptions()
	if err != nil {
		return err
	}
	var open []opener
	for _, d := range []capture.Direction{capture.In, capture.Out} {
		if o.direction == d || o.direction == capture.InOut {
			open = append(open, func(iface string) (AnyCounter, error) { return o.openDirection(d, options, iface) })
		}
	}
	return run(&o.Options, frame.Guard{}, open...)
}

// openDirection begins to count one direction.
func (o *CountOptions) openDirection(d capture.Direction, options meter.ProtocolsOptions, iface string) (AnyCounter, error) {
	options.Interface, options.Sent = iface, d == capture.Out
	received, sent, err := o.filter.Compile(iface, o.direction)
	if err != nil {
		return nil, err
	}
	options.Filter, options.FilterText = received, o.filter.String()
	if options.Sent {
		options.Filter = sent
	} else if options.AtIngress, err = o.atIngress(iface); err != nil {
		return nil, err
	}
	p, err := meter.OpenProtocols(options)
	if d == capture.In && o.chosenHook() == autoHook && meter.IsUntraceable(err) {
		options.AtIngress = true // only the packets that the program passes
		p, err = meter.OpenProtocols(options)
	}
	if err != nil {
		return nil, err
	}
	return o.Counter(p, d, p.Interface().Name), nil
}

const autoHook = "auto"

// chosenHook is the value of --at, whose default depends on other flags.
func (o *CountOptions) chosenHook() string {
	if !o.Flags.Changed("at") && o.Interfaces.HasPattern() && !o.tracesOnly {
		return autoHook
	}
	return o.at
}

// atIngress reports whether received packets are counted at tc, after XDP.
func (o *CountOptions) atIngress(iface string) (bool, error) {
	if at := o.chosenHook(); at != autoHook {
		return at == "tc", nil
	}
	ifi, err := xdp.InterfaceByName(iface)
	return err == nil && support.PrefersTC(ifi), err
}

// Counter is a meter of one direction of an interface, as the command prints and exports it.
func (o *CountOptions) Counter(p *meter.Protocols, d capture.Direction, iface string) *Counter[meter.ProtocolCounts] {
	return newCounter(p, countMetrics(o, d, iface), func(i countInterval) *CountReport { return newCountReport(o, d, iface, p.Traced(), i) })
}

// meterOptions returns the flags as options of internal/meter, for any interface.
func (o *CountOptions) meterOptions() (p meter.ProtocolsOptions, err error) {
	o.tracesOnly = len(o.verdictNames) > 0
	o.instead = frame.PassedAndDropped + "; or detach that program, so that xdpcap attaches its own"
	if o.tracesOnly {
		o.instead = frame.WhichPackets(o.verdictNames)
	}
	var given []string
	switch {
	case o.Interfaces.HasPattern(): // a pattern is enough for both
	case o.tracesOnly:
		given = append(given, "--verdict")
	case o.filter.String() != "":
		given = append(given, "a filter")
	}
	if err := o.checkInterfaces(given...); err != nil {
		return p, err
	}
	if o.direction, err = capture.ParseDirection(strings.ToLower(o.directions)); err != nil {
		return p, fmt.Errorf("-Q: %w", err)
	}
	if o.direction == capture.Out && o.Program != "" {
		return p, fmt.Errorf("--program %s: XDP programs see only received packets: omit it, or say -Q inout", o.Program)
	}
	switch o.at {
	case "xdp", autoHook:
	case "tc":
		if o.Program != "" || len(o.verdictNames) > 0 {
			return p, errors.New("--at tc and --program or --verdict: packets at tc have passed XDP: omit --at")
		}
	default:
		return p, fmt.Errorf("--at %s: must be xdp, tc or auto", o.at)
	}
	if o.Flows < 0 {
		return p, fmt.Errorf("--flows %d: must be 0 or more", o.Flows)
	}
	p = meter.ProtocolsOptions{Program: o.Program, Sizes: o.Sizes, Flows: o.Flows > 0}
	if p.Variant, err = meter.ParseVariant(o.variant); err != nil {
		return p, fmt.Errorf("--variant: %w", err)
	}
	if o.verdicts, err = o.parseVerdicts(); err != nil {
		return p, err
	}
	p.Verdicts = o.verdicts
	if o.perCPU && p.Variant == meter.Naive {
		return p, errors.New("--per-cpu: the variant naive has one counter for all CPUs; take ultra or percpu")
	}
	if p.Mode, err = capture.ParseMode(o.mode); err != nil {
		return p, fmt.Errorf("--xdp-mode: %w", err)
	}
	return p, nil
}

// countVerdicts are the names that --verdict accepts.
func countVerdicts() []string { return append(xdp.VerdictNames(), xdp.UnknownVerdict.SlotName()) }

// parseVerdicts reads --verdict. All numbers that are no verdict of the kernel count as one
// verdict.
func (o *CountOptions) parseVerdicts() (verdicts []xdp.Verdict, err error) {
	if len(o.verdictNames) > 0 && o.direction != capture.In {
		return nil, errors.New("--verdict: only received packets have a verdict: omit -Q")
	}
	for _, name := range o.verdictNames {
		v := xdp.UnknownVerdict
		if name != v.SlotName() {
			if v, err = xdp.ParseVerdict(name); err != nil {
				return nil, fmt.Errorf("--verdict: %w", err)
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// countMetrics omits flows, because Prometheus would keep the labels of every flow for ever.
func countMetrics(o *CountOptions, d capture.Direction, iface string) metrics.Set[meter.ProtocolCounts] {
	type counts = meter.ProtocolCounts
	byClass := []string{"family", "protocol"}
	if o.perCPU {
		byClass = append(byClass, "cpu")
	}
	m := metrics.Set[counts]{Labels: map[string]string{
		"interface": iface, "direction": d.String(), "verdict": strings.Join(o.verdictNames, ","), "filter": o.filter.String(),
	}}
	m.Tallies("xdpcap_protocol_packets_total", "by protocol", byClass, o.eachClass)
	if o.Sizes {
		m.Tallies("xdpcap_size_packets_total", "by their size in bytes", []string{"size"}, func(c counts, send func(meter.Tally, ...string)) {
			for i, name := range meter.SizeNames {
				send(c.Sizes[i], name)
			}
		})
	}
	if o.Flows > 0 {
		m.Sum("xdpcap_flow_evictions_total", "Flows that made room for others in the table.",
			func(c counts) float64 { return float64(c.Overflow.Flows) })
		m.Sum("xdpcap_flow_evicted_bytes_total", "Bytes of packets of flows that made room.",
			func(c counts) float64 { return float64(c.Overflow.Bytes) })
		m.All = append(m.All, metrics.Metric[counts]{
			Name: "xdpcap_flow_missed_bytes", Gauge: true, Help: "The most bytes that a flow without an entry in the table can have had.",
			Values: func(c counts, send metrics.SendValue) { send(float64(c.Overflow.Most.Bytes)) },
		})
	}
	return m
}

// eachClass sends the tally of every class with its labels. With --per-cpu it sends one tally for
// each CPU that has seen such a packet.
func (o *CountOptions) eachClass(c meter.ProtocolCounts, send func(meter.Tally, ...string)) {
	for class, perCPU := range c.Classes {
		eachCPU(&o.Options, perCPU, c.Class(class), func(t meter.Tally, cpu ...string) {
			send(t, append([]string{class.Family(), class.Protocol()}, cpu...)...)
		})
	}
}
