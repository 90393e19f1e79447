package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// monitorOptions are the flags of the command monitor.
type monitorOptions struct {
	meterOptions
	iface     string
	program   string
	redirects bool
	record    uint64
	verbose   bool
}

const monitorHelp = `monitor counts what the kernel's xdp tracepoints report: redirects that fail, by error; exceptions,
by verdict; bulks that leave through devmaps, cpumaps and the verdict tx; memory models; attachments
that fail. It attaches nothing to an interface. CPU:to is the CPU of the event and, for
cpumap-enqueue, the one that the packets go to. pps counts packets that went on, and events where
there are no packets; drop-pps those that were lost; the number in brackets, events since the start.

With -i, events that tell no interface are restricted by what they tell: those of cpumaps to the
maps of the interface's program, memory to what was connected since the start, failed attachments
to the network namespace.`

const monitorExamples = `  xdpcap monitor                                all events of this machine, per second
  xdpcap monitor -i eth0 --redirects --per-cpu  one interface, each CPU, also what succeeds
  xdpcap monitor --record 20                    twenty single events, a line each
  xdpcap monitor --listen :9432 --json          for Prometheus and a script`

func newMonitor() *cobra.Command {
	var o monitorOptions
	cmd := &cobra.Command{
		Use:     "monitor [flags]",
		Short:   "Count the events of the kernel's xdp tracepoints",
		Long:    monitorHelp,
		Example: monitorExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("record") {
				return runRecord(&o, cmd.Flags().Changed)
			}
			return runMonitor(&o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.iface, "interface", "i", "", "only events of this `interface`")
	f.StringVar(&o.program, "program", "", "only events of this XDP program, by `name or id`")
	f.BoolVar(&o.redirects, "redirects", false, "count successful redirects, too: costs time for every packet")
	f.Uint64Var(&o.record, "record", 0, "print single events, a line each, and end after `N` of them")
	o.register(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "name the tracepoints that are not counted, and why")
	cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	return cmd
}

func runMonitor(o *monitorOptions) error {
	return runMeter(&o.meterOptions, func() (counters[meter.EventCounts], error) { return openMonitor(o) })
}

// monitor is meter.Tracepoints as a command shows it.
type monitor struct {
	*meter.Tracepoints
	o       *monitorOptions
	iface   *xdp.Interface // nil: all
	program *xdp.Program   // nil: all
	metrics *monitorMetrics
}

func openMonitor(o *monitorOptions) (*monitor, error) {
	m := &monitor{o: o, metrics: newMonitorMetrics(o)}
	open := meter.TracepointOptions{Redirects: o.redirects, Record: o.record > 0}
	if o.iface != "" {
		ifi, err := xdp.InterfaceByName(o.iface)
		if err != nil {
			return nil, err
		}
		m.iface, open.Interface = &ifi, &ifi
	}
	if o.program != "" {
		p, err := xdp.FindProgram(o.program)
		if err != nil {
			return nil, fmt.Errorf("--program: %w", err)
		}
		m.program, open.Program = &p, p.ID
	}
	var err error
	if m.Tracepoints, err = meter.OpenTracepoints(open); err != nil {
		return nil, err
	}
	if o.verbose {
		m.nameAbsent(os.Stderr)
	}
	return m, nil
}

func (m *monitor) nameAbsent(w io.Writer) {
	for _, a := range m.Absent() {
		fmt.Fprintf(w, "xdpcap: tracepoint %s is not counted: %s\n", a.Tracepoint, a.Reason)
	}
}

// String says what is counted: "xdp tracepoints of eth0, program lb (id 7)".
func (m *monitor) String() string {
	s := "xdp tracepoints"
	if m.iface != nil {
		s += " of " + m.iface.Name
	}
	if m.program != nil {
		s += fmt.Sprintf(", program %v", *m.program)
	}
	return s
}

func (m *monitor) interfaces() []int {
	if m.iface == nil {
		return nil
	}
	return []int{m.iface.Index}
}

func (m *monitor) read() (meter.EventCounts, error) { return m.Read() }
func (m *monitor) close() error                     { return m.Close() }

func (m *monitor) reading(sp span[meter.EventCounts]) reading { return newMonitorReading(m, sp) }

// checkRecord finds flags that single events have no use for.
func (o *monitorOptions) checkRecord(given func(flag string) bool) error {
	if o.record == 0 {
		return errors.New("--record 0: must be at least 1")
	}
	for _, flag := range []string{"interval", "count", "per-cpu", "listen"} {
		if given(flag) {
			return fmt.Errorf("--record prints single events, and --%s is about counters: use one of them", flag)
		}
	}
	return nil
}
