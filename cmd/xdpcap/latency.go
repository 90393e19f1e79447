package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// latencyOptions are the flags of the command latency.
type latencyOptions struct {
	meterOptions
	iface       string
	builtin     bool
	kernelStats bool
	drop        float64 // percent
	events      bool
	mode        string
	yes         bool
}

const latencyHelp = `latency shows how long the XDP program of an interface runs, per verdict, as percentiles and a
histogram. It measures in one of three ways, and says on stderr in which:

  the default      at the entry and exit of the attached program, which stays as it is. What the
                   probes cost is measured first, and said.
  --kernel-stats   from the kernel's own counters: the mean alone, for all interfaces that it is
                   attached to, where fentry and fexit are refused
  --builtin        in a program of xdpcap's own, where none is attached: from its entry to its
                   verdict. It lets packets pass, or drops a share of them at random.

Times are since the start, RUNS/S is of the interval. A percentile is within 3 % of the true one.`

const latencyExamples = `  xdpcap latency -i eth0                        the program that is attached
  xdpcap latency -i eth0 --kernel-stats         its mean run time, on every kernel
  xdpcap latency -i veth0 --builtin --drop 50   xdpcap's own, which drops every other packet
  xdpcap latency -i veth0 --builtin --events    a line for each packet`

func newLatency() *cobra.Command {
	var o latencyOptions
	cmd := &cobra.Command{
		Use:     "latency -i interface [flags]",
		Short:   "Measure how long the XDP program runs, per verdict",
		Long:    latencyHelp,
		Example: latencyExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkLatency(cmd.Flags().Changed); err != nil {
				return err
			}
			return runLatency(&o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.iface, "interface", "i", "", "measure on this `interface`")
	f.BoolVar(&o.kernelStats, "kernel-stats", false, "show the mean from the kernel's counters, which this switches on meanwhile")
	f.BoolVar(&o.builtin, "builtin", false, "attach a program that measures itself")
	f.Float64Var(&o.drop, "drop", 0, "with --builtin, drop so many `percent` of the packets at random")
	f.BoolVar(&o.events, "events", false, "with --builtin, print each measurement as a line instead of tables")
	f.StringVar(&o.mode, "xdp-mode", "auto", "with --builtin, where to attach, `mode`: native (driver), generic (stack), or auto")
	f.BoolVar(&o.yes, "yes", false, "do it also where --drop disturbs this machine")
	o.register(f)
	cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	return cmd
}

// checkLatency finds what is wrong with the flags before anything is touched.
func (o *latencyOptions) checkLatency(given func(flag string) bool) error {
	switch {
	case o.iface == "":
		return errNoInterface
	case o.builtin && o.kernelStats:
		return errors.New("--builtin and --kernel-stats are two ways to measure: choose one")
	case !(o.drop >= 0 && o.drop <= 100):
		return fmt.Errorf("--drop %v: must be 0 to 100 percent", o.drop)
	}
	for _, flag := range []string{"drop", "events", "xdp-mode"} {
		if given(flag) && !o.builtin {
			return fmt.Errorf("--%s is for the program that --builtin attaches: add --builtin", flag)
		}
	}
	for _, flag := range []string{"interval", "count", "per-cpu", "listen"} {
		if given(flag) && o.events {
			return fmt.Errorf("--events prints single measurements, and --%s is about counters: use one of them", flag)
		}
	}
	if o.perCPU && o.kernelStats {
		return errors.New("--per-cpu: the kernel adds up all CPUs in what --kernel-stats shows; use one of them")
	}
	return nil
}

func runLatency(o *latencyOptions) error {
	if o.kernelStats {
		return runMeter(&o.meterOptions, func() (counters[meter.RuntimeCounts], error) { return openRuntime(o) })
	}
	if o.events {
		return runEvents(o)
	}
	return runMeter(&o.meterOptions, func() (counters[meter.LatencyCounts], error) {
		if o.builtin {
			return openBuiltin(o, nil)
		}
		return openLatency(o)
	})
}

// latency is meter.Latency as a command shows it.
type latency struct {
	*meter.Latency
	method  string
	cost    *meter.ProbeCost // nil: not measured
	perCPU  bool
	metrics *latencyMetrics
}

// The ways to measure, as JSON names them.
const (
	byTrace   = "fentry-fexit"
	byBuiltin = "builtin"
	byKernel  = "kernel-stats"
)

func openLatency(o *latencyOptions) (*latency, error) {
	m, err := meter.OpenLatency(o.iface)
	if err != nil {
		return nil, err
	}
	l := &latency{Latency: m, method: byTrace, perCPU: o.perCPU, metrics: newLatencyMetrics(o.iface)}
	cost, err := meter.MeasureProbeCost()
	if err != nil {
		fmt.Fprintf(os.Stderr, "xdpcap: measuring by fentry and fexit; what the probes cost is not known: %v\n", err)
		return l, nil
	}
	l.cost = &cost
	l.announce(os.Stderr)
	return l, nil
}

func (l *latency) announce(w io.Writer) {
	fmt.Fprintf(w, "xdpcap: measuring by fentry and fexit: the probes add %v to each packet, and of a program that does "+
		"nothing they measure %v\n", l.cost.Added, l.cost.Floor)
}

// openBuiltin attaches xdpcap's own program; event may be nil.
func openBuiltin(o *latencyOptions, event func(meter.Measurement)) (*latency, error) {
	mode, err := xdp.ParseMode(o.mode)
	if err != nil {
		return nil, fmt.Errorf("--xdp-mode: %w", err)
	}
	if err := refuseDrop(o); err != nil {
		return nil, err
	}
	m, err := meter.OpenBuiltin(o.iface, meter.BuiltinOptions{Drop: o.drop / 100, Mode: mode, Event: event})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "xdpcap: measuring with the built-in program, from its entry to its verdict; it drops %g %% of the packets\n", o.drop)
	return &latency{Latency: m, method: byBuiltin, perCPU: o.perCPU, metrics: newLatencyMetrics(o.iface)}, nil
}

// refuseDrop protects a machine from disturbing itself.
func refuseDrop(o *latencyOptions) error {
	if o.drop == 0 || o.yes {
		return nil
	}
	ifi, err := xdp.InterfaceByName(o.iface)
	if err != nil || ifi.Type == "loopback" {
		return err
	}
	talks, err := ifi.HasDefaultRoute()
	if err != nil {
		return err
	}
	if talks {
		return fmt.Errorf("--drop %g loses packets, and the default route is over %s: this machine would be disturbed or cut "+
			"off; add --yes if that is meant", o.drop, o.iface)
	}
	return nil
}

func (l *latency) interfaces() []int                  { return []int{l.Interface().Index} }
func (l *latency) read() (meter.LatencyCounts, error) { return l.Read() }
func (l *latency) close() error                       { return l.Close() }

func (l *latency) reading(sp span[meter.LatencyCounts]) reading {
	return newLatencyReading(l.Interface().Name, l.Program(), l.method, l.cost, l.perCPU, sp)
}

// runTime is meter.Runtime as a command shows it.
type runTime struct {
	*meter.Runtime
	metrics *runTimeMetrics
}

func openRuntime(o *latencyOptions) (*runTime, error) {
	m, err := meter.OpenRuntime(o.iface)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "xdpcap: measuring by the kernel's run-time counters: the mean of all verdicts, no percentiles")
	return &runTime{Runtime: m, metrics: newRunTimeMetrics(o.iface)}, nil
}

func (r *runTime) interfaces() []int                  { return []int{r.Interface().Index} }
func (r *runTime) read() (meter.RuntimeCounts, error) { return r.Read() }
func (r *runTime) close() error                       { return r.Close() }

func (r *runTime) reading(sp span[meter.RuntimeCounts]) reading {
	return &runTimeReading{
		moment:       sp.moment(),
		Interface:    r.Interface().Name,
		Program:      r.Program().Name,
		ProgramID:    r.Program().ID,
		Method:       byKernel,
		Runs:         sp.now.Runs,
		Rate:         perSecond(sp.before.Runs, sp.now.Runs, sp.took),
		Sum:          sp.now.Time.Nanoseconds(),
		Mean:         sp.now.Mean(meter.RuntimeCounts{}).Nanoseconds(),
		IntervalMean: sp.now.Mean(sp.before).Nanoseconds(),
	}
}

// runTimeReading is what latency --kernel-stats prints with --json.
type runTimeReading struct {
	moment
	Interface    string  `json:"interface"`
	Program      string  `json:"program"`
	ProgramID    uint32  `json:"program_id"`
	Method       string  `json:"method"` // "kernel-stats"
	Runs         uint64  `json:"runs"`
	Rate         float64 `json:"runs_per_s"`
	Sum          int64   `json:"sum_ns"`
	Mean         int64   `json:"mean_ns"`          // since the start
	IntervalMean int64   `json:"interval_mean_ns"` // in the interval, 0 where there was no run
}

func (r *runTimeReading) json() any { return r }

func (r *runTimeReading) table(w io.Writer) {
	t := table{}
	t.add("PROGRAM", "RUNS", "RUNS/S", "MEAN", "IN THE INTERVAL")
	lately := "-"
	if r.IntervalMean > 0 {
		lately = brief(time.Duration(r.IntervalMean))
	}
	t.add(shorten(r.Program, 40), fmt.Sprint(r.Runs), scaled(r.Rate), brief(time.Duration(r.Mean)), lately)
	t.write(w)
}
