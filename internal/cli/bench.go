package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// benchOptions are the flags of the command bench.
type benchOptions struct {
	iface    string
	variants []string
	sizes    bool
	flows    bool
	sample   uint32
	mode     string
	program  string
	packets  string
	yes      bool
	cpus     int
	duration time.Duration
	json     bool
}

const (
	benchRounds    = 5
	maxBenchSample = 1_000_000
)

const benchHelp = `bench measures the variants of count against each other: the same packets, in the kernel, on
pinned CPUs at the same time, after a warm-up, in five rounds. It needs no interface and no
traffic, and compares the counts of each variant with the packets that were sent. The program empty
does nothing: every other line includes its cost. four is for comparison only: it counts packets of
TCP, UDP and ICMP over IPv4, and all others as one.

  NS       time per packet on one CPU
  ADDS     NS less that of empty; with --sizes, --flows or --sample, less that of the
           variant alone
  SPEEDUP  MPPS divided by that of naive
  INSNS    BPF instructions of the program as loaded
  HOT      the most of them that an untagged packet of IPv4, or of TCP and UDP over
           IPv6, runs through; a dash where the program calls a function
  CYCLES   cycles per packet, by the CPU's own counters; a dash where it has none
  NATIVE   instructions of the CPU per packet, likewise

With --flows a variant is measured twice: with packets of few flows, and with a new flow in every
packet.

With -i each variant is also attached to an interface, in turn, and measured there by the kernel's
run-time counters, with the packets that come in; all of them pass. bench sends nothing: let
another machine send. In every line NS includes the time to read the counters' clock. CPU is the
part of one CPU that the program takes at this rate. Some drivers reset their queues when an XDP
program is attached or detached.

With --program bench measures a program that is already loaded, on the packets of a capture or on
packets of its own. ONCE is a single run of each packet in turn, which is the cost of a packet that
comes alone. REPEATED is one of many runs of a packet in a row, which is the cost at high rates.
Both are in ns more than a program that does nothing. Nothing is sent, whatever the verdict, but the
program's maps change as if the packets had come in by the loopback interface: this is refused
without --yes. The kernel cannot run programs of devmap or cpumap entries in this way.`

const benchExamples = `  xdpcap bench
  xdpcap bench --variant ultra --variant naive --cpus 4
  xdpcap bench --sizes --sample 1000                      what sizes and sampling add to each
  xdpcap bench --flows --cpus 1                           what the table of flows adds
  xdpcap bench -i eth0                                    at the XDP hook, under the traffic there
  xdpcap bench --program lb --packets out.pcapng --yes    a program of your own, on your packets`

func newBench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:     "bench [flags]",
		Short:   "Measure the variants of count, or an XDP program",
		Long:    benchHelp,
		Example: benchExamples,
		Args:    frame.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBench(cmd.OutOrStdout(), &o, cmd.Flags()) },
	}
	frame.AddGroup(cmd.Flags(), "What", o.whatFlags)
	frame.AddGroup(cmd.Flags(), "Where", o.whereFlags)
	frame.AddGroup(cmd.Flags(), "When", o.timeFlags)
	frame.AddGroup(cmd.Flags(), "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&o.json, "json", false, "print one JSON object")
	})
	cmd.RegisterFlagCompletionFunc("interface", frame.CompleteInterface)
	cmd.RegisterFlagCompletionFunc("variant", cobra.FixedCompletions(meter.VariantNames(meter.BenchVariants), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("program", frame.CompleteProgram)
	return cmd
}

func (o *benchOptions) whatFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.variants, "variant", meter.VariantNames(meter.BenchVariants), "measure this `variant`; repeat it for several")
	f.BoolVar(&o.sizes, "sizes", false, "also measure each variant with count's --sizes")
	f.BoolVar(&o.flows, "flows", false, "also measure each variant with count's --flows")
	f.Uint32Var(&o.sample, "sample", 1, "also measure each variant when it counts only one packet of every `N`, chosen at random")
	f.StringVar(&o.program, "program", "", "measure this loaded XDP program, `NAME` or id, instead of the variants")
	f.StringVar(&o.packets, "packets", "", fmt.Sprintf("run --program on the first %d packets of this `file`, pcapng or pcap; - is standard input", meter.MaxBenchPackets))
	f.BoolVar(&o.yes, "yes", false, "allow --program to run the program, which changes its maps")
}

func (o *benchOptions) whereFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.iface, "interface", "i", "", "also measure at the XDP hook of this `interface`, with the packets that come in")
	f.StringVar(&o.mode, "xdp-mode", "auto", "with -i, attach in this `mode`: native (in the driver), generic (in the stack), or auto (native where possible)")
	f.IntVar(&o.cpus, "cpus", 2, "run on this many `CPUs` at the same time, or on all where there are fewer")
}

func (o *benchOptions) timeFlags(f *pflag.FlagSet) {
	frame.DurationVar(f, &o.duration, "duration", 2*time.Second, "measure each variant for this `time`: CPU time on each CPU, and as long on the interface of -i")
}

func runBench(out io.Writer, o *benchOptions, given *pflag.FlagSet) error {
	if err := o.checkTogether(given); err != nil {
		return err
	}
	if err := frame.CheckPrints(); err != nil {
		return err
	}
	cpus, err := o.allowedCPUs()
	if err != nil {
		return err
	}
	var r benchPrinter
	if o.program != "" {
		r, err = o.benchProgram(cpus[0])
	} else {
		r, err = o.benchVariants(cpus)
	}
	if err != nil {
		return err
	}
	if o.json {
		return frame.ExplainPrint(json.NewEncoder(out).Encode(r))
	}
	var text bytes.Buffer
	r.writeTable(&text)
	_, err = out.Write(text.Bytes())
	return frame.ExplainPrint(err)
}

// A benchPrinter is what bench has measured: a table, or with --json an object.
type benchPrinter interface{ writeTable(io.Writer) }

// checkTogether refuses flags that have no meaning beside others, or without them.
func (o *benchOptions) checkTogether(given *pflag.FlagSet) error {
	refuse := func(why string, names ...string) error {
		for _, name := range names {
			if given.Changed(name) {
				return fmt.Errorf("--%s %s", name, why)
			}
		}
		return nil
	}
	if o.program != "" {
		return refuse("is for the variants of count, and --program measures another program: omit one of them",
			"interface", "variant", "sizes", "flows", "sample", "xdp-mode", "cpus")
	}
	if given.Changed("program") {
		return errors.New("--program: which program? its NAME or id")
	}
	err := refuse("is for --program NAME, which is missing", "packets", "yes")
	if o.iface != "" && err == nil {
		err = refuse("changes the packets that it measures with, and those of -i belong to others: omit one of them", "flows")
	}
	if o.iface == "" && err == nil {
		err = refuse("is for -i NAME, which is missing", "xdp-mode")
	}
	return err
}

// benchVariants measures the variants of count.
func (o *benchOptions) benchVariants(cpus []int) (benchPrinter, error) {
	options, err := o.bench(cpus)
	if err != nil {
		return nil, err
	}
	mode, err := xdp.ParseMode(o.mode)
	if err != nil {
		return nil, fmt.Errorf("--xdp-mode: %w", err)
	}
	ctx, err := frame.Begin(frame.Guard{})
	if err != nil {
		return nil, err
	}
	var attached *meter.AttachedBench
	if o.iface != "" {
		frame.Say(frame.Stderr, "measuring on %s for about %v, with the packets that come in", o.iface, options.Took(0))
		if attached, err = meter.BenchAttached(ctx, o.iface, mode, options); err != nil {
			return nil, err
		}
	}
	frame.Say(frame.Stderr, "measuring on CPU %v for about %v", options.CPUs, options.Took(time.Second))
	results, err := meter.Bench(ctx, options)
	if err != nil {
		return nil, err
	}
	return newBenchReport(results, options.CPUs, attached), nil
}

// bench returns the flags as options of internal/meter.
func (o *benchOptions) bench(cpus []int) (meter.BenchOptions, error) {
	b := meter.BenchOptions{Duration: o.duration, Rounds: benchRounds, CPUs: cpus, Sizes: o.sizes, Flows: o.flows}
	for _, name := range o.variants {
		v, err := meter.ParseVariant(name, meter.BenchVariants)
		if err != nil {
			return b, fmt.Errorf("--variant: %w", err)
		}
		if slices.Contains(b.Variants, v) {
			return b, fmt.Errorf("--variant %s is given twice", name)
		}
		b.Variants = append(b.Variants, v)
	}
	if o.sample < 1 || o.sample > maxBenchSample {
		return b, fmt.Errorf("--sample %d: must be at least 1, which is every packet, and at most %d", o.sample, maxBenchSample)
	}
	if o.sample > 1 {
		b.Sample = o.sample
	}
	return b, nil
}

// allowedCPUs returns as many of the CPUs that this process may run on as are to be used.
func (o *benchOptions) allowedCPUs() (cpus []int, err error) {
	if o.cpus < 1 {
		return nil, fmt.Errorf("--cpus %d: must be at least 1", o.cpus)
	}
	if o.duration < 10*time.Millisecond {
		return nil, fmt.Errorf("--duration %v: must be at least 10ms", o.duration)
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	for cpu := 0; cpu < len(allowed)*64 && len(cpus) < o.cpus; cpu++ {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) == 0 {
		return nil, errors.New("this process may run on no CPU")
	}
	return cpus, nil
}
