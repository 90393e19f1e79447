package counters

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// MonitorOptions are the flags of the command monitor: events of the kernel's xdp tracepoints.
type MonitorOptions struct {
	Options
	redirects bool
	record    recordLimit
}

const monitorHelp = `monitor counts what the kernel's xdp tracepoints report: redirects that fail, by error; exceptions,
by verdict; bulks that leave through devmaps, cpumaps and the verdict tx; memory models; attachments
that fail. It attaches nothing to an interface.

CPU:to is the CPU of the event and, for cpumap-enqueue, the CPU that the packets go to. pps counts
packets that went on, or events where there are no packets. drop-pps counts packets that were lost.
The number in brackets is events since the start.

With -i, events that do not name an interface are restricted by what they do name: cpumap events to
the maps of the interface's program, memory to what was connected since the start, failed
attachments to the network namespace.`

const monitorExamples = `  xdpcap monitor                                all events of this machine, per second
  xdpcap monitor -i eth0 --redirects --per-cpu  one interface, each CPU, also what succeeds
  xdpcap monitor --record                       single events, a line each
  xdpcap monitor --record 20                    twenty of them
  xdpcap monitor --listen :9432 --json          for Prometheus and a script`

// NewMonitor returns the command.
func NewMonitor(p *frame.Process) *cobra.Command {
	o := MonitorOptions{Options: Options{Process: p, ofMachine: true}}
	cmd := newCommand(&o.Options, &cobra.Command{
		Use:     "monitor [flags]",
		Short:   "Count the events of the kernel's xdp tracepoints",
		Long:    monitorHelp,
		Example: monitorExamples,
		Args:    o.record.arguments,
		RunE: func(*cobra.Command, []string) error {
			if o.record.given {
				return o.runRecord()
			}
			return o.run()
		},
	}, flagGroup{Title: "Which events", Flags: o.eventFlags()})
	o.Flags.Lookup("verbose").Usage = "name the tracepoints that are not counted, and why; print more about errors"
	return cmd
}

func (o *MonitorOptions) eventFlags() []frame.Flag {
	return []frame.Flag{
		o.interfaceFlag("only events of this `interface`"),
		{Name: "program", Value: &o.Program, Complete: o.Process.CompleteProgram, Help: "only events of this XDP program, by `name or id`"},
		{Name: "redirects", Value: &o.redirects, Help: "also count successful redirects; this costs time for every packet"},
		{Name: "record", Value: &o.record, Bare: noLimit, Help: "print single events, one per line; with a number, end after `N` of them"},
	}
}

func (o *MonitorOptions) run() error {
	return run(&o.Options, frame.Guard{}, func(iface string) (AnyCounter, error) {
		m, err := o.open(iface)
		if err != nil {
			return nil, err
		}
		return newCounter(m, o.Metrics(m.iface), func(i monitorInterval) *MonitorReport { return newMonitorReport(m, i) }), nil
	})
}

// A monitor has the open tracepoints, restricted to an interface or not.
type monitor struct {
	*meter.Tracepoints
	o     *MonitorOptions
	iface string // "" = all
}

// open opens the tracepoints for the events of one interface, or with "" of all.
func (o *MonitorOptions) open(iface string) (*monitor, error) {
	m := &monitor{o: o}
	options := meter.TracepointOptions{Program: o.Program, Redirects: o.redirects, Record: o.record.given}
	if iface != "" {
		ifi, err := xdp.InterfaceByName(iface)
		if err != nil {
			return nil, err
		}
		m.iface, options.Interface = ifi.Name, &ifi
	}
	var err error
	if m.Tracepoints, err = meter.OpenTracepoints(options); err != nil {
		return nil, err
	}
	if o.Verbose > 0 {
		for _, a := range m.Absent() {
			frame.Say(o.Process.Stderr, "tracepoint %s is not counted: %s", a.Tracepoint, a.Reason)
		}
	}
	return m, nil
}

// String names what is counted: "xdp tracepoints of eth0, program lb (id 7)".
func (m *monitor) String() string {
	s := "xdp tracepoints"
	if m.iface != "" {
		s += " of " + m.iface
	}
	if m.o.Program != "" {
		s += fmt.Sprintf(", program %v", m.Program())
	}
	return s
}

// Metrics are the exported metrics of the events of an interface; "" = of all. Their labels are the
// keys of an EventCase in JSON.
func (o *MonitorOptions) Metrics(iface string) metrics.Set[meter.EventCounts] {
	byCase := []string{"event", "reason", "from", "to", "map_id", "to_cpu"}
	byMap, byVerdict := []string{"map_id"}, []string{"verdict", "map_id"}
	if o.perCPU {
		byCase, byMap, byVerdict = append(byCase, "cpu"), append(byMap, "cpu"), append(byVerdict, "cpu")
	}
	set := metrics.Set[meter.EventCounts]{Labels: map[string]string{"interface": iface, "program": o.Program}}
	set.Count("xdpcap_tracepoint_events_total", "Events of the xdp tracepoints; of bulks, their number.", byCase,
		o.ofCases(func(n meter.EventCount) uint64 { return n.Events }))
	set.Count("xdpcap_tracepoint_packets_total", "Packets that went on, by the xdp tracepoints.", byCase,
		o.ofCases(func(n meter.EventCount) uint64 { return n.Packets }))
	set.Count("xdpcap_tracepoint_drops_total", "Packets that were lost, by the xdp tracepoints.", byCase,
		o.ofCases(func(n meter.EventCount) uint64 { return n.Drops }))
	set.Count("xdpcap_tracepoint_cpumap_sched_total", "Bulks before which a cpumap's thread slept or yielded its CPU.", byMap,
		o.ofKthreads(func(n meter.EventCount, send metrics.SendValue) { send(float64(n.Sched)) }))
	set.Count("xdpcap_tracepoint_cpumap_verdicts_total", "Packets by the verdict of the program in a cpumap's entry.", byVerdict,
		o.ofKthreads(func(n meter.EventCount, send metrics.SendValue) {
			send(float64(n.Passed), xdp.Pass.String())
			send(float64(n.Dropped), xdp.Drop.String())
			send(float64(n.Redirected), xdp.Redirect.String())
		}))
	set.Sum("xdpcap_tracepoint_missed_total", "Events that are in no other metric: there were too many different ones.",
		func(c meter.EventCounts) float64 { return float64(c.Missed) })
	return set
}

// ofCases returns a function that sends one value of every case.
func (o *MonitorOptions) ofCases(value func(meter.EventCount) uint64) func(meter.EventCounts, metrics.SendValue) {
	return func(counts meter.EventCounts, send metrics.SendValue) {
		o.eachCase(counts, func(c meter.Case, n meter.EventCount, cpu ...string) {
			send(float64(value(n)), append(caseLabels(c), cpu...)...)
		})
	}
}

// ofKthreads returns a function that sends the values of every cpumap's thread. The labels of the
// map and the CPU follow those that values gives.
func (o *MonitorOptions) ofKthreads(values func(meter.EventCount, metrics.SendValue)) func(meter.EventCounts, metrics.SendValue) {
	return func(counts meter.EventCounts, send metrics.SendValue) {
		o.eachCase(counts, func(c meter.Case, n meter.EventCount, cpu ...string) {
			if c.Event != meter.CPUMapKthread {
				return
			}
			values(n, func(value float64, labels ...string) {
				send(value, append(append(labels, mapLabel(c)), cpu...)...)
			})
		})
	}
}

// eachCase calls f with the counters of every case. With --per-cpu it calls f for each CPU that had
// such an event, with that CPU's counters and number.
func (o *MonitorOptions) eachCase(counts meter.EventCounts, f func(c meter.Case, n meter.EventCount, cpu ...string)) {
	for c, perCPU := range counts.Cases {
		eachCPU(&o.Options, perCPU, meter.SumEvents(perCPU), func(n meter.EventCount, cpu ...string) { f(c, n, cpu...) })
	}
}

func caseLabels(c meter.Case) []string {
	e := newEventCase(c)
	if c.Event == meter.AttachFailed {
		e.Reason = e.Message
	}
	toCPU := ""
	if e.ToCPU != nil {
		toCPU = strconv.Itoa(*e.ToCPU)
	}
	return []string{e.Event, e.Reason, e.From, e.To, mapLabel(c), toCPU}
}

func mapLabel(c meter.Case) string {
	if c.MapID == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(c.MapID), 10)
}
