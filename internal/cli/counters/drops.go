package counters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// DropsOptions are the flags of the command drops: where packets get lost, from the card to the
// socket.
type DropsOptions struct {
	Options
	harmless bool
	check    bool
	flows    int
}

const dropsHelp = `drops counts lost packets from the card to the socket, and on the way out: at the card, at the XDP
hook, in the network stack, in sockets and in the queues of what is sent. Each packet is counted at
the one stage that lost it, with the kernel's reason, and the function or program that threw it
away. Below the table is what to do about it. It attaches nothing to an interface.

With -i, packets count that came in through the interface, or were lost at it or at a device above
it: a VLAN, a bond, a bridge. DEVICE names that device, and ? stands for packets whose device the
kernel has forgotten: they may be another interface's. Where it has forgotten the network namespace,
too, and the packet came in elsewhere, the row is called unclear and is in no total. Buffers of GSO
and GRO count their segments.

--flows shows the flows that lost most packets in the network stack, in sockets and on the way out,
and in the row other what else each stage lost. The memory for flows has a fixed size, so a flow may
have to make room: AT MOST is what it can have lost, where that differs.

--check compares the losses with the counters of the kernel, of this network namespace: below the
table are counters that rose and that no row explains, and rows that no counter confirms.`

const dropsExamples = `  xdpcap drops -i eth0                          a table per second; Ctrl-C prints the totals
  xdpcap drops                                  all interfaces of this machine together
  xdpcap drops -i eth0 --duration 10 --json -q  one object about ten seconds, for a script
  xdpcap drops -i eth0 --flows 10               the ten flows with most losses of each stage, too
  xdpcap drops --check                          also whether the kernel's own counters agree
  xdpcap drops -i eth0 --harmless               also what the kernel throws away and nobody misses
  xdpcap drops -i eth0 --listen :9432           for Prometheus, too`

// NewDrops returns the command.
func NewDrops(p *frame.Process) *cobra.Command {
	var o DropsOptions
	o.OfMachine, o.NoPerCPU = true, true
	return newCommand(p, &o.Options, &cobra.Command{
		Use:     "drops [flags]",
		Short:   "Count lost packets, from the card to the socket",
		Long:    dropsHelp,
		Example: dropsExamples,
		Args:    frame.NoFilter("see the lost packets that match with xdpcap -i NAME --drops"),
		RunE:    func(*cobra.Command, []string) error { return runDrops(&o) },
	}, flagGroup{Title: "What", Flags: o.whatFlags()})
}

func (o *DropsOptions) whatFlags() []frame.Flag {
	return []frame.Flag{
		o.interfaceFlag("only packets of this `interface`"),
		{Name: "flows", Value: &o.flows, Help: "also show the `N` flows with most losses of each stage, by reason"},
		{Name: "harmless", Value: &o.harmless, Help: "also show packets that the kernel throws away and nobody misses"},
		{Name: "check", Value: &o.check, Help: "also compare with the kernel's own counters, and show what differs"},
	}
}

func runDrops(o *DropsOptions) error {
	if o.flows < 0 {
		return fmt.Errorf("--flows %d: must be 0 or more", o.flows)
	}
	return run(&o.Options, frame.Guard{}, func(iface string) (*Counter[drops.Counts], error) {
		m, err := drops.Open(drops.Options{Interface: iface, Flows: o.flows > 0, Check: o.check})
		if err != nil {
			return nil, err
		}
		return o.Counter(m, m.Interface()), nil
	})
}

// Counter is a meter of an interface, "" for all, as the command prints and exports it.
func (o *DropsOptions) Counter(m kernelMeter[drops.Counts], iface string) *Counter[drops.Counts] {
	return newCounter(m, o.metrics(iface), func(i dropsInterval) *DropsReport { return newDropsReport(o, iface, i) })
}

// metrics omits flows, because Prometheus would keep the labels of every flow for ever.
func (o *DropsOptions) metrics(iface string) metrics.Set[drops.Counts] {
	set := metrics.Set[drops.Counts]{Labels: map[string]string{"interface": iface}}
	set.Count("xdpcap_drops_packets_total", "Lost packets, by the stage that lost them and the reason.", []string{"stage", "reason", "where", "device", "netns"},
		func(c drops.Counts, send metrics.SendValue) {
			for l, tally := range c.Losses {
				netns := ""
				if l.Netns != 0 {
					netns = fmt.Sprint(l.Netns)
				}
				send(float64(tally.Packets), string(l.Stage), l.Reason, l.Where, l.Device, netns)
			}
		})
	set.Sum("xdpcap_drops_missed_total", "Losses that are in no other metric: there were too many different ones.",
		func(c drops.Counts) float64 { return float64(c.Missed) })
	return set
}
