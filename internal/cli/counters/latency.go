package counters

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
)

// LatencyOptions are the flags of the command latency: how long an XDP program runs, per verdict.
type LatencyOptions struct {
	Options
	kernelStats bool

	cost         *meter.ProbeCost // of the probes; nil = it could not be measured
	costMeasured bool             // or tried
}

const latencyHelp = `latency shows how long the XDP program of an interface runs, per verdict, as percentiles and a
histogram. It measures in one of two ways, and says on stderr which one:

  the default      at the entry and exit of the attached program, which stays unchanged.
                   latency first measures the cost of its probes, and prints it.
  --kernel-stats   from the kernel's own counters, also where tracing is refused: only the mean,
                   over all interfaces that the program is attached to

Times are since the start; those in the lines under INTERVAL are of the last interval alone, and so
is RUNS/S. A percentile is within 3 % of the true one. With -i any or a pattern such as 'veth*' the
programs of all such interfaces are measured, also of those that come later.`

const latencyExamples = `  xdpcap latency -i eth0                        the program that is attached
  xdpcap latency -i eth0 --program firewall     behind a libxdp dispatcher, this one
  xdpcap latency -i eth0 --kernel-stats         its mean run time, on every kernel`

// NewLatency returns the command.
func NewLatency(p *frame.Process) *cobra.Command {
	o := LatencyOptions{Options: Options{Process: p}}
	return newCommand(&o.Options, &cobra.Command{
		Use:     "latency -i interface [flags]",
		Short:   "Measure how long the XDP program runs, per verdict",
		Long:    latencyHelp,
		Example: latencyExamples,
		Args:    frame.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}, flagGroup{Title: "Where", Flags: o.whereFlags()}, flagGroup{Title: "How it measures", Flags: o.methodFlags()})
}

func (o *LatencyOptions) whereFlags() []frame.Flag {
	return []frame.Flag{o.interfaceFlag("measure on this `interface`, a pattern such as 'veth*', or any (default with --listen: on all)"), o.programFlag()}
}

func (o *LatencyOptions) methodFlags() []frame.Flag {
	return []frame.Flag{
		{Name: "kernel-stats", Value: &o.kernelStats, Help: "show the mean from the kernel's counters, which are switched on meanwhile"},
	}
}

// checkLatency finds mistakes in the flags before a program is attached.
func (o *LatencyOptions) checkLatency() error {
	o.tracesOnly, o.instead = true, frame.HowLong
	if err := o.checkInterfaces(); err != nil {
		return err
	}
	if o.Program != "" && o.kernelStats {
		return errors.New("--program: --kernel-stats counts a dispatcher as a whole: use one of them")
	}
	if o.perCPU && o.kernelStats {
		return errors.New("--per-cpu: --kernel-stats has only the sum of all CPUs: use one of them")
	}
	return nil
}

func (o *LatencyOptions) run() error {
	if err := o.checkLatency(); err != nil {
		return err
	}
	open := o.openTraced
	if o.kernelStats {
		open = o.openRuntime
	}
	return run(&o.Options, frame.Guard{}, open)
}

// Counter is a meter of an interface, as the command prints and exports it. cost is the cost of its
// probes; nil = not measured.
func (o *LatencyOptions) Counter(m *meter.Latency, cost *meter.ProbeCost, iface string) *Counter[meter.LatencyCounts] {
	return newCounter(m, latencyMetrics(iface), func(i latencyInterval) *LatencyReport { return newLatencyReport(o, m, cost, i) })
}

// The ways to measure, as JSON names them.
const (
	byTrace  = "fentry-fexit"
	byKernel = "kernel-stats"
)

// openTraced measures at the entry and exit of the attached program.
func (o *LatencyOptions) openTraced(iface string) (AnyCounter, error) {
	m, err := meter.OpenLatency(iface, o.Program)
	if err != nil {
		return nil, err
	}
	if !o.costMeasured {
		o.costMeasured = true
		o.measureCost()
	}
	return o.Counter(m, o.cost, m.Interface().Name), nil
}

// measureCost measures the cost of the probes, which is the same for all interfaces.
func (o *LatencyOptions) measureCost() {
	cost, err := meter.MeasureProbeCost()
	if err != nil {
		frame.Say(o.Process.Stderr, "measuring by fentry and fexit; the cost of the probes is not known: %v", err)
		return
	}
	o.cost = &cost
	frame.Say(o.Process.Stderr, "measuring by fentry and fexit: the probes add %v to each packet, and measure %v for a program that "+
		"does nothing", cost.Added, cost.Floor)
}

// openRuntime reads the kernel's own counters.
func (o *LatencyOptions) openRuntime(iface string) (AnyCounter, error) {
	m, err := meter.OpenRuntime(iface)
	if err != nil {
		return nil, err
	}
	frame.Say(o.Process.Stderr, "measuring by the kernel's run-time counters: the mean of all verdicts, no percentiles")
	return MeanCounter(m), nil
}

// MeanCounter is a meter of an interface, as the command prints and exports it.
func MeanCounter(m *meter.Runtime) *Counter[meter.RuntimeCounts] {
	return newCounter(m, RuntimeMetrics(m.Interface().Name), func(i runtimeInterval) *RuntimeReport { return newRuntimeReport(m, i) })
}

func latencyMetrics(iface string) metrics.Set[meter.LatencyCounts] {
	set := metrics.Set[meter.LatencyCounts]{Labels: map[string]string{"interface": iface}}
	set.All = []metrics.Metric[meter.LatencyCounts]{{
		Name: "xdpcap_latency_seconds", Help: "Run time of the XDP program by its verdict.", Labels: []string{"verdict"},
		Times: func(c meter.LatencyCounts, send metrics.SendTimes) {
			for v := range c.Verdicts {
				send(&c.Verdicts[v], verdictName(v))
			}
		},
	}}
	return set
}

// RuntimeMetrics are the metrics of --kernel-stats.
func RuntimeMetrics(iface string) metrics.Set[meter.RuntimeCounts] {
	set := metrics.Set[meter.RuntimeCounts]{Labels: map[string]string{"interface": iface}}
	set.Sum("xdpcap_program_runs_total", "Runs of the XDP program, by the kernel's counters.",
		func(c meter.RuntimeCounts) float64 { return float64(c.Runs) })
	set.Sum("xdpcap_program_run_seconds_total", "Run time of the XDP program, by the kernel's counters.",
		func(c meter.RuntimeCounts) float64 { return c.Time.Seconds() })
	return set
}
