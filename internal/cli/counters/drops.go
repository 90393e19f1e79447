package counters

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/filters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// DropsOptions are the flags of the command drops: where packets get lost, from the card to the
// socket.
type DropsOptions struct {
	Options
	harmless    bool
	check       bool
	retransmits bool
	flows       int // the number of rows for each stage; 0 = flows are not counted
	filter      filters.Options
	pods        map[uint32]string // names of pods by the inodes of their network namespaces; nil with -i
}

const dropsHelp = `drops counts lost packets from the card to the socket, and on the way out: at the card, at the XDP
hook, in the network stack, in sockets and in the queues of what is sent. Each packet is counted at
the one stage that lost it, with the kernel's reason, and the function or program that threw it
away. Below the table are the rule, socket, queue or route to blame, as far as the kernel tells, and
what to do about it. Without a filter, it attaches nothing to an interface.

With a filter, only losses of packets that match are in the table, and above it is their way: how
many came to each stage per second, and how many that lost. For that, a program at tc ingress and
one for what sockets receive count packets, and pass all of them on. Losses whose packets no program
sees, such as those of the card, are of all packets: unfiltered, in no total.

With -i, packets count that came in through the interface, or were lost at it or at a device above
it: a VLAN, a bond, a bridge. DEVICE names that device, and ? stands for packets whose device the
kernel has forgotten: they may be another interface's. Where it has forgotten the network namespace,
too, and the packet came in elsewhere, the row is called unclear and is in no total. Buffers of GSO
and GRO count their segments.

--flows shows the flows that lost most packets in the network stack, in sockets and on the way out,
and in the row other what else each stage lost. The memory for flows has a fixed size, so a flow may
have to make room: AT MOST is what it can have lost, where that differs.

--check compares the losses with the counters of the kernel, of this network namespace: below the
table are counters that rose and that no row explains, and rows that no counter confirms.

--retransmits compares what TCP of this host sends again with the losses of the last two minutes:
below the table is how much of it was lost here, and why; with -i at this interface, of connections
whose route leads through it.`

const dropsExamples = `  xdpcap drops -i eth0                          a table per second; Ctrl-C prints the totals
  xdpcap drops -i eth0 'udp port 5000'          where these packets remain on their way
  xdpcap drops                                  all interfaces of this machine together
  xdpcap drops -i any                           all interfaces of this network namespace
  xdpcap drops -i eth0 --duration 10 --json -q  one object about ten seconds, for a script
  xdpcap drops -i eth0 --flows 10               the ten flows with most losses of each stage, too
  xdpcap drops --check                          also whether the kernel's own counters agree
  xdpcap drops --retransmits                    does TCP send again because of this host?
  xdpcap drops -i eth0 --harmless               also what the kernel throws away and nobody misses
  xdpcap drops -i eth0 --listen :9432           for Prometheus, too`

// NewDrops returns the command.
func NewDrops(p *frame.Process) *cobra.Command {
	o := DropsOptions{Options: Options{Process: p, ofMachine: true, noPerCPU: true, firstWords: "counting"}}
	return newCommand(&o.Options, &cobra.Command{
		Use:     "drops [flags] [filter]",
		Short:   "Count lost packets, from the card to the socket",
		Long:    dropsHelp,
		Example: dropsExamples,
		Args:    frame.FilterArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.filter.Words = args
			return o.run(cmd)
		},
	}, flagGroup{Title: "What", Flags: o.whatFlags()})
}

func (o *DropsOptions) whatFlags() []frame.Flag {
	flags := []frame.Flag{
		o.interfaceFlag("only packets of this `interface`, or with any of all in this network namespace"),
		{Name: "flows", Value: &o.flows, Help: "also show the `N` flows with most losses of each stage, by reason"},
		{Name: "harmless", Value: &o.harmless, Help: "also show packets that the kernel throws away and nobody misses"},
		{Name: "check", Value: &o.check, Help: "also compare with the kernel's own counters, and show what differs"},
		{Name: "retransmits", Value: &o.retransmits, Help: "also tell whether what TCP sends again was lost here, and why"},
	}
	// The filter always looks behind VLAN tags, because a VLAN's interface removes them on the way.
	return append(flags, slices.DeleteFunc(o.filter.Flags(), func(f frame.Flag) bool { return f.Name == "vlan-aware" })...)
}

func (o *DropsOptions) run(cmd *cobra.Command) error {
	if err := o.filter.Read(o.Process.UntilSignal()); err != nil {
		return err
	}
	o.filter.VLANAware = o.filter.Program == nil
	o.filter.Warn(cmd.ErrOrStderr())
	if o.filter.Dump > 0 {
		return o.filter.Print(cmd.OutOrStdout(), 0, false)
	}
	if err := o.checkDrops(); err != nil {
		return err
	}
	if len(o.Interfaces) == 0 {
		o.pods = frame.PodNamespaces()
	}
	return run(&o.Options, frame.Guard{}, o.openLosses)
}

// checkDrops finds mistakes in the flags before a program is attached.
func (o *DropsOptions) checkDrops() error {
	any, filter := slices.Contains(o.Interfaces, frame.AnyInterface), o.filter.String()
	switch {
	case o.flows < 0:
		return fmt.Errorf("--flows %d: must be 0 or more", o.flows)
	case any && len(o.Interfaces) > 1:
		return errors.New("-i any is all interfaces of this network namespace: omit the others")
	case !any && o.Interfaces.HasPattern():
		return fmt.Errorf("-i %s: one set of programs counts what the machine loses: name the interfaces, or take -i any", o.Interfaces.Pattern())
	case filter != "" && len(o.Interfaces) == 0:
		return errors.New("a filter needs a named interface: add -i " + frame.SomeInterface())
	case filter != "" && any:
		return errors.New("-i any cannot be filtered: name the interface, -i " + frame.SomeInterface())
	case filter != "" && o.check:
		return errors.New("--check and a filter: the kernel's counters are of all packets: omit one of them")
	}
	return nil
}

// openLosses begins to count on an interface, in this network namespace (any), or everywhere ("").
func (o *DropsOptions) openLosses(iface string) (_ AnyCounter, err error) {
	options := drops.Options{
		Interface: iface, Namespace: iface == frame.AnyInterface, Flows: o.flows > 0, Check: o.check, Retransmits: o.retransmits, FilterText: o.filter.String(),
	}
	if options.Namespace {
		options.Interface = ""
	}
	if options.Filter, _, err = o.filter.Compile(iface, capture.In); err != nil {
		return nil, err
	}
	m, err := drops.OpenLasting(options)
	if err != nil {
		return nil, err
	}
	if notice := drops.Notice(); notice != "" {
		frame.Say(o.Process.Stderr, "%s", notice)
	}
	return o.Counter(m, cmp.Or(m.Interface(), iface)), nil
}

// Counter is a meter of an interface, "" for all, as the command prints and exports it.
func (o *DropsOptions) Counter(m kernelMeter[drops.Counts], iface string) *Counter[drops.Counts] {
	return newCounter(m, o.metrics(iface), func(i dropsInterval) *DropsReport { return NewDropsReport(o, iface, i) })
}

// metrics omits flows, because Prometheus would keep the labels of every flow for ever.
func (o *DropsOptions) metrics(iface string) metrics.Set[drops.Counts] {
	set := metrics.Set[drops.Counts]{Labels: map[string]string{"interface": iface, "filter": o.filter.String()}}
	set.Count("xdpcap_drops_packets_total", "Lost packets, by the stage that lost them and the reason.", []string{"stage", "reason", "where", "device", "netns"},
		func(c drops.Counts, send metrics.SendValue) {
			for l, tally := range c.Losses {
				send(float64(tally.Packets), labelsOf(l)...)
			}
		})
	countRetransmits(&set)
	set.Count("xdpcap_way_packets_total", "Packets that the filter takes, by the stages that they came to.", []string{"stage"},
		func(c drops.Counts, send metrics.SendValue) {
			for _, stop := range c.Way.CountedStops() {
				send(float64(stop.Came.Packets), string(stop.Stage))
			}
		})
	set.Sum("xdpcap_drops_missed_total", "Losses that are in no other metric: there were too many different ones.",
		func(c drops.Counts) float64 { return float64(c.Missed) })
	return set
}

// labelsOf are a loss's stage, reason, where, device and netns.
func labelsOf(l drops.Loss) []string {
	netns := ""
	if l.Netns != 0 {
		netns = fmt.Sprint(l.Netns)
	}
	return []string{string(l.Stage), l.Reason, l.Where, l.Device, netns}
}
