// Package latency is the command latency: how long an XDP program runs, per verdict.
package latency

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/metrics"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Options are the flags of the command latency.
type Options struct {
	counters.Options
	builtin     bool
	kernelStats bool
	drop        float64 // percent
	events      bool
	mode        string
	yes         bool
}

const latencyHelp = `latency shows how long the XDP program of an interface runs, per verdict, as percentiles and a
histogram. It measures in one of three ways, and says on stderr which one:

  the default      at the entry and exit of the attached program, which stays unchanged.
                   latency first measures the cost of its probes, and prints it.
  --kernel-stats   from the kernel's own counters, also where tracing is refused: only the mean,
                   over all interfaces that the program is attached to
  --builtin        in xdpcap's own program, where none is attached: from its entry to its
                   verdict. It lets packets pass, or with --drop drops some at random.

Times are since the start; those in the lines under INTERVAL are of the last interval alone, and so
is RUNS/S. A percentile is within 3 % of the true one.`

const latencyExamples = `  xdpcap latency -i eth0                        the program that is attached
  xdpcap latency -i eth0 --program firewall     behind a libxdp dispatcher, this one
  xdpcap latency -i eth0 --kernel-stats         its mean run time, on every kernel
  xdpcap latency -i veth0 --builtin --drop 50   xdpcap's own, which drops half of the packets
  xdpcap latency -i veth0 --builtin --events    a line for each packet`

// New returns the command.
func New(p *frame.Process) *cobra.Command {
	var o Options
	return counters.NewCommand(p, &o.Options, &cobra.Command{
		Use:     "latency -i interface [flags]",
		Short:   "Measure how long the XDP program runs, per verdict",
		Long:    latencyHelp,
		Example: latencyExamples,
		Args:    frame.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return runLatency(&o) },
	}, counters.Group{Title: "Where", Flags: o.whereFlags()}, counters.Group{Title: "How it measures", Flags: o.methodFlags()})
}

func (o *Options) whereFlags() []frame.Flag {
	return []frame.Flag{o.InterfaceFlag("measure on this `interface` (default with --listen: on all)"), o.ProgramFlag()}
}

func (o *Options) methodFlags() []frame.Flag {
	mode := frame.ModeFlag(&o.mode)
	mode.Help = "with --builtin, " + mode.Help
	return []frame.Flag{
		{Name: "kernel-stats", Value: &o.kernelStats, Help: "show the mean from the kernel's counters, which are switched on meanwhile"},
		{Name: "builtin", Value: &o.builtin, Help: "attach a program that measures itself"},
		mode,
		{Name: "drop", Value: &o.drop, Help: "with --builtin, drop this many `percent` of the packets, at random"},
		{Name: "yes", Value: &o.yes, Help: "allow --drop even if it disturbs this machine"},
		{Name: "events", Value: &o.events, Help: "with --builtin, print each measurement as a line instead of tables"},
	}
}

// ofBuiltin are flags that have no effect without --builtin.
var ofBuiltin = []string{"drop", "events", "xdp-mode"}

// checkLatency finds mistakes in the flags before anything is touched. Settings without effect are
// none.
func (o *Options) checkLatency() error {
	if !o.builtin {
		frame.ForgetSettings(o.Flags, ofBuiltin...)
	}
	if o.events {
		frame.ForgetSettings(o.Flags, counters.CountingFlags...)
	}
	var chosen []string
	for _, flag := range []string{"program", "builtin"} {
		if o.Flags.Changed(flag) {
			chosen = append(chosen, "--"+flag)
		}
	}
	if err := o.CheckInterfaces(chosen...); err != nil {
		return err
	}
	switch {
	case o.builtin && o.kernelStats:
		return errors.New("--builtin and --kernel-stats are two ways to measure: choose one")
	case o.Program != "" && o.builtin:
		return errors.New("--program chooses one that runs, and --builtin attaches xdpcap's own: use one of them")
	case o.Program != "" && o.kernelStats:
		return errors.New("--program: --kernel-stats counts a dispatcher as a whole: use one of them")
	case !(o.drop >= 0 && o.drop <= 100):
		return fmt.Errorf("--drop %v: must be 0 to 100 percent", o.drop)
	}
	for _, flag := range ofBuiltin {
		if o.Flags.Changed(flag) && !o.builtin {
			return fmt.Errorf("--%s is for the program that --builtin attaches: add --builtin", flag)
		}
	}
	if o.events {
		if len(o.Interfaces) > 1 {
			return errors.New("--events prints the measurements of one interface: give one -i")
		}
		return o.RefuseCounting("--events prints single measurements")
	}
	if o.PerCPU && o.kernelStats {
		return errors.New("--per-cpu: --kernel-stats has only the sum of all CPUs: use one of them")
	}
	return nil
}

func runLatency(o *Options) error {
	if err := o.checkLatency(); err != nil {
		return err
	}
	g := frame.Guard{Yes: o.yes}
	if o.drop > 0 {
		g.Flag = fmt.Sprintf("--drop %g", o.drop)
	}
	switch {
	case o.kernelStats:
		return counters.Run(&o.Options, g, func(iface string) (*counters.Counters[meter.RuntimeCounts], error) {
			return openRuntime(o, iface)
		})
	case o.events:
		return runEvents(o, g)
	}
	return counters.Run(&o.Options, g, func(iface string) (*counters.Counters[meter.LatencyCounts], error) {
		open := openTraced
		if o.builtin {
			open = func(o *Options, iface string) (*latency, error) { return openBuiltin(o, iface, nil) }
		}
		l, err := open(o, iface)
		if err != nil {
			return nil, err
		}
		return l.counters(l.Interface().Name), nil
	})
}

// Traced are counters of an interface whose program is traced, as the command prints and exports
// them, without what the probes cost.
func Traced(m *meter.Latency, iface string) *counters.Counters[meter.LatencyCounts] {
	return (&latency{Latency: m, method: byTrace}).counters(iface)
}

func (l *latency) counters(iface string) *counters.Counters[meter.LatencyCounts] {
	return counters.New(l, latencyMetrics(iface), func(i interval) *Report { return newLatencyReport(l, i) })
}

// A latency is an open meter.Latency, with what the report has beside its counters.
type latency struct {
	*meter.Latency
	method string
	cost   *meter.ProbeCost // nil: not measured
	perCPU bool
}

// The ways to measure, as JSON names them.
const (
	byTrace   = "fentry-fexit"
	byBuiltin = "builtin"
	byKernel  = "kernel-stats"
)

// openTraced measures at the entry and exit of the attached program.
func openTraced(o *Options, iface string) (*latency, error) {
	m, err := meter.OpenLatency(iface, o.Program)
	if err != nil {
		return nil, err
	}
	l := &latency{Latency: m, method: byTrace, perCPU: o.PerCPU}
	cost, err := meter.MeasureProbeCost()
	if err != nil {
		frame.Say(o.Process.Stderr, "measuring by fentry and fexit; the cost of the probes is not known: %v", err)
		return l, nil
	}
	l.cost = &cost
	frame.Say(o.Process.Stderr, "measuring by fentry and fexit: the probes add %v to each packet, and measure %v for a program that "+
		"does nothing", cost.Added, cost.Floor)
	return l, nil
}

// openBuiltin attaches xdpcap's own program. event is called for each measurement, and may be nil.
func openBuiltin(o *Options, iface string, event func(meter.Measurement)) (*latency, error) {
	mode, err := xdp.ParseMode(o.mode)
	if err != nil {
		return nil, fmt.Errorf("--xdp-mode: %w", err)
	}
	m, err := meter.OpenBuiltin(iface, meter.BuiltinOptions{Drop: o.drop / 100, Mode: mode, Event: event})
	if err != nil {
		return nil, err
	}
	frame.Say(o.Process.Stderr, "measuring with the built-in program, from its entry to its verdict; it drops %g %% of the packets", o.drop)
	return &latency{Latency: m, method: byBuiltin, perCPU: o.PerCPU}, nil
}

// openRuntime reads the kernel's own counters.
func openRuntime(o *Options, iface string) (*counters.Counters[meter.RuntimeCounts], error) {
	m, err := meter.OpenRuntime(iface)
	if err != nil {
		return nil, err
	}
	frame.Say(o.Process.Stderr, "measuring by the kernel's run-time counters: the mean of all verdicts, no percentiles")
	report := func(i meter.Interval[meter.RuntimeCounts]) *RuntimeReport { return newRuntimeReport(m, i) }
	return counters.New(m, RuntimeMetrics(m.Interface().Name), report), nil
}

func latencyMetrics(iface string) metrics.Set[meter.LatencyCounts] {
	set := metrics.Set[meter.LatencyCounts]{Labels: map[string]string{"interface": iface}}
	set.All = []metrics.Metric[meter.LatencyCounts]{{
		Name: "xdpcap_latency_seconds", Help: "Run time of the XDP program by its verdict.", Labels: []string{"verdict"},
		Times: func(c meter.LatencyCounts, send metrics.SendTimes) {
			for v := range c.Verdicts {
				send(&c.Verdicts[v], counters.VerdictName(v))
			}
		},
	}}
	set.Count("xdpcap_latency_lost_total", "Measurements that did not get through the perf ring.", nil,
		func(c meter.LatencyCounts, send metrics.SendValue) { send(float64(c.Lost)) })
	return set
}

// RuntimeMetrics are what --kernel-stats exports.
func RuntimeMetrics(iface string) metrics.Set[meter.RuntimeCounts] {
	set := metrics.Set[meter.RuntimeCounts]{Labels: map[string]string{"interface": iface}}
	set.Count("xdpcap_program_runs_total", "Runs of the XDP program, by the kernel's counters.", nil,
		func(c meter.RuntimeCounts, send metrics.SendValue) { send(float64(c.Runs)) })
	set.Count("xdpcap_program_run_seconds_total", "Run time of the XDP program, by the kernel's counters.", nil,
		func(c meter.RuntimeCounts, send metrics.SendValue) { send(c.Time.Seconds()) })
	return set
}
