package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// statsOptions are the flags of the command stats.
type statsOptions struct {
	meterOptions
	iface    string
	program  string
	action   string
	yes      bool
	perQueue bool
	mode     string
}

const statsHelp = `stats counts packets and bytes per XDP verdict. A program that runs on the interface is counted at
its exit and left as it is, for the packets of this interface; where none runs, stats attaches one
that does --action. A libxdp dispatcher is counted as a whole, or with --program one of those behind
it.`

const statsExamples = `  xdpcap stats -i eth0                          a table per second; Ctrl-C prints the totals
  xdpcap stats -i eth0 --count 10 --json        ten objects for a script
  xdpcap stats -i eth0 --program firewall       behind a libxdp dispatcher, what this one returns
  xdpcap stats -i eth0 --listen :9432           for Prometheus, too`

func newStats() *cobra.Command {
	var o statsOptions
	cmd := &cobra.Command{
		Use:     "stats -i interface [flags]",
		Short:   "Count packets and bytes per XDP verdict",
		Long:    statsHelp,
		Example: statsExamples,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runStats(&o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.iface, "interface", "i", "", "count on this `interface`")
	f.StringVar(&o.program, "program", "", "which program, where several run: `NAME` or id; or the id of one in a devmap or cpumap")
	f.StringVar(&o.action, "action", "pass", "where no program runs, what to do with packets, `verdict`: pass, drop or abort")
	f.BoolVar(&o.yes, "yes", false, "do it also where --action cuts this machine off")
	f.BoolVar(&o.perQueue, "per-queue", false, "count each receive queue by itself")
	f.StringVar(&o.mode, "xdp-mode", "auto", "where to attach, `mode`: native (driver), generic (stack), or auto: native if it can be had")
	o.register(f)
	cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	cmd.RegisterFlagCompletionFunc("action", cobra.FixedCompletions([]string{"pass", "drop", "abort"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runStats(o *statsOptions) error {
	if o.iface == "" {
		return errNoInterface
	}
	open := meter.ActionsOptions{Interface: o.iface, Program: o.program}
	var err error
	if open.Verdict, err = parseAction(o.action); err != nil {
		return err
	}
	if open.Mode, err = xdp.ParseMode(o.mode); err != nil {
		return fmt.Errorf("--xdp-mode: %w", err)
	}
	return runMeter(&o.meterOptions, func() (counters[meter.ActionCounts], error) {
		ifi, err := xdp.InterfaceByName(o.iface)
		if err != nil {
			return nil, err
		}
		if err := refuseAction(ifi, open.Verdict, o.yes); err != nil {
			return nil, err
		}
		if o.perQueue {
			open.Queues = ifi.RxQueues
		}
		a, err := meter.OpenActions(open)
		if err != nil {
			return nil, err
		}
		return &stats{Actions: a, o: o, metrics: newStatsMetrics(o)}, nil
	})
}

var errNoInterface = errors.New("which interface? -i NAME; xdpcap interfaces lists them")

func parseAction(name string) (xdp.Verdict, error) {
	for _, v := range []xdp.Verdict{xdp.Pass, xdp.Drop} {
		if name == v.String() {
			return v, nil
		}
	}
	if name == "abort" {
		return xdp.Aborted, nil
	}
	return 0, fmt.Errorf("--action %q: must be pass, drop or abort", name)
}

// refuseAction protects a machine from cutting itself off.
func refuseAction(ifi xdp.Interface, v xdp.Verdict, yes bool) error {
	if v == xdp.Pass || yes || ifi.Type == "loopback" {
		return nil
	}
	talks, err := ifi.HasDefaultRoute()
	if err != nil {
		return err
	}
	if talks {
		return fmt.Errorf("--action lets no packet through, and the default route is over %s: this machine would be cut off; "+
			"add --yes if that is meant", ifi.Name)
	}
	return nil
}

// stats is meter.Actions as a command shows it.
type stats struct {
	*meter.Actions
	o       *statsOptions
	metrics *statsMetrics
}

func (s *stats) interfaces() []int                 { return []int{s.Interface().Index} }
func (s *stats) read() (meter.ActionCounts, error) { return s.Read() }
func (s *stats) close() error                      { return s.Close() }

func (s *stats) reading(sp span[meter.ActionCounts]) reading {
	return newStatsReading(s.o, s.Interface().Name, sp)
}

func newStatsReading(o *statsOptions, iface string, sp span[meter.ActionCounts]) *statsReading {
	r := &statsReading{moment: sp.moment(), Interface: iface}
	r.verdictRates = newVerdictRates(sp, sp.before.Total(), sp.now.Total())
	if o.perQueue {
		for q := range sp.now {
			// The last is for queues that the driver said it has not: shown only where it was wrong.
			v := newVerdictRates(sp, sp.before.Queue(q), sp.now.Queue(q))
			if q < len(sp.now)-1 || v.Total.Packets > 0 {
				r.Queues = append(r.Queues, queueRates{queueName(sp.now, q), v})
			}
		}
	}
	if o.perCPU {
		for cpu := range sp.now.CPUs() {
			v := newVerdictRates(sp, sp.before.CPU(cpu), sp.now.CPU(cpu))
			r.CPUs = append(r.CPUs, cpuRates{strconv.Itoa(cpu), v})
		}
	}
	return r
}

func queueName(c meter.ActionCounts, queue int) string {
	if queue == len(c)-1 {
		return "other"
	}
	return strconv.Itoa(queue)
}

// statsReading is what stats prints with --json.
type statsReading struct {
	moment
	Interface string `json:"interface"`
	verdictRates
	Queues []queueRates `json:"queues,omitempty"`
	CPUs   []cpuRates   `json:"cpus,omitempty"`
}

type verdictRates struct {
	Verdicts map[string]rate `json:"verdicts"` // by name
	Total    rate            `json:"total"`
}

type queueRates struct {
	Queue string `json:"queue"`
	verdictRates
}

type cpuRates struct {
	CPU string `json:"cpu"`
	verdictRates
}

func newVerdictRates(sp span[meter.ActionCounts], before, now meter.VerdictTallies) verdictRates {
	v := verdictRates{Verdicts: make(map[string]rate), Total: newRate(before.Sum(), now.Sum(), sp.took)}
	for i := range now {
		v.Verdicts[verdictName(i)] = newRate(before[i], now[i], sp.took)
	}
	return v
}

func verdictName(slot int) string { return xdp.Verdict(slot).SlotName() }

func (r *statsReading) json() any { return r }

func (r *statsReading) table(w io.Writer) {
	var t table
	t.add(append([]string{"VERDICT"}, rateColumns...)...)
	for i := range (meter.VerdictTallies{}) {
		t.add(r.Verdicts[verdictName(i)].row(verdictName(i))...)
	}
	t.add(r.Total.row("total")...)
	t.write(w)
	if r.Queues != nil {
		t := newSubTable("QUEUE")
		for _, q := range r.Queues {
			q.addTo(t, q.Queue)
		}
		t.write(w)
	}
	if r.CPUs != nil {
		t := newSubTable("CPU")
		for _, c := range r.CPUs {
			c.addTo(t, c.CPU)
		}
		t.write(w)
	}
}

func newSubTable(of string) *table {
	t := &table{left: 1}
	t.add(append([]string{of, "VERDICT"}, rateColumns...)...)
	return t
}

// addTo adds the verdicts that there were.
func (v verdictRates) addTo(t *table, name string) {
	for i := range (meter.VerdictTallies{}) {
		if r := v.Verdicts[verdictName(i)]; r.Packets > 0 {
			t.add(r.row(name, verdictName(i))...)
		}
	}
}

// statsMetrics are labelled by verdict, and by what else is counted by itself.
type statsMetrics struct {
	packets, bytes   *prometheus.Desc
	perQueue, perCPU bool
}

func newStatsMetrics(o *statsOptions) *statsMetrics {
	labels := []string{"verdict"}
	if o.perQueue {
		labels = append(labels, "queue")
	}
	if o.perCPU {
		labels = append(labels, "cpu")
	}
	on := prometheus.Labels{"interface": o.iface}
	return &statsMetrics{
		packets:  prometheus.NewDesc("xdpcap_verdict_packets_total", "Packets by the XDP program's verdict.", labels, on),
		bytes:    prometheus.NewDesc("xdpcap_verdict_bytes_total", "Bytes of packets by the XDP program's verdict.", labels, on),
		perQueue: o.perQueue,
		perCPU:   o.perCPU,
	}
}

func (s *stats) describe() []*prometheus.Desc {
	return []*prometheus.Desc{s.metrics.packets, s.metrics.bytes}
}

func (s *stats) collect(c meter.ActionCounts, ch chan<- prometheus.Metric) { s.metrics.collect(c, ch) }

func (m *statsMetrics) collect(c meter.ActionCounts, ch chan<- prometheus.Metric) {
	send := func(v meter.VerdictTallies, labels ...string) {
		for i, t := range v {
			with := append([]string{verdictName(i)}, labels...)
			ch <- counter(m.packets, t.Packets, with...)
			ch <- counter(m.bytes, t.Bytes, with...)
		}
	}
	switch {
	case !m.perQueue && !m.perCPU:
		send(c.Total())
	case !m.perQueue:
		for cpu := range c.CPUs() {
			send(c.CPU(cpu), strconv.Itoa(cpu))
		}
	case !m.perCPU:
		for q := range c {
			send(c.Queue(q), queueName(c, q))
		}
	default:
		for q := range c {
			for cpu, v := range c[q] {
				send(v, queueName(c, q), strconv.Itoa(cpu))
			}
		}
	}
}
