package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// benchOptions are the flags of the command bench.
type benchOptions struct {
	variants []string
	cpus     int
	duration time.Duration
	json     bool
}

const benchRounds = 5

const benchHelp = `bench measures the variants of count against each other: the same packets, in the kernel, on
pinned CPUs at the same time, after a warm-up, in five rounds. It needs no interface and no
traffic. What each variant counted is compared with what was sent.

INSNS are the BPF instructions of the program as loaded, HOT those that an untagged packet of IPv4,
or of TCP and UDP over IPv6, runs through at most. CYCLES and NATIVE are the CPU's own counts per
packet of cycles and instructions: a dash where it has no such counters. SPEED-UP is that of MPPS
over naive's. empty is a program that does nothing: its cost is in every other line, too.`

func newBench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:     "bench [flags]",
		Short:   "Measure the variants of count against each other",
		Long:    benchHelp,
		Example: "  xdpcap bench\n  xdpcap bench --variant ultra --variant naive --cpus 4",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBench(cmd.OutOrStdout(), &o) },
	}
	addGroup(cmd.Flags(), "What", o.whatFlags)
	addGroup(cmd.Flags(), "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&o.json, "json", false, "print one JSON object")
	})
	cmd.RegisterFlagCompletionFunc("variant", cobra.FixedCompletions([]string{"ultra", "percpu", "naive"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *benchOptions) whatFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.variants, "variant", []string{"naive", "percpu", "ultra"}, "measure this `variant`; repeat it for several")
	f.IntVar(&o.cpus, "cpus", 2, "run on so many `CPUs` at the same time, or on all where there are fewer")
	durationVar(f, &o.duration, "duration", 2*time.Second, "CPU `time` for each variant on each CPU")
}

func runBench(out io.Writer, o *benchOptions) error {
	options, err := o.bench()
	if err != nil {
		return err
	}
	ctx, err := begin(guard{})
	if err != nil {
		return err
	}
	say(stderr, "measuring on CPU %v for about %v", options.CPUs,
		(time.Duration(len(options.Variants)+1) * (o.duration + time.Second)).Round(time.Second))
	results, err := meter.Bench(ctx, options)
	if err != nil {
		return err
	}
	r := newBenchReport(results, options.CPUs)
	if o.json {
		return explainPrint(json.NewEncoder(out).Encode(r))
	}
	var text bytes.Buffer
	r.writeTable(&text)
	_, err = out.Write(text.Bytes())
	return explainPrint(err)
}

// bench returns the flags as options of internal/meter.
func (o *benchOptions) bench() (meter.BenchOptions, error) {
	b := meter.BenchOptions{Duration: o.duration, Rounds: benchRounds}
	for _, name := range o.variants {
		v, err := meter.ParseVariant(name)
		if err != nil {
			return b, fmt.Errorf("--variant: %w", err)
		}
		if slices.Contains(b.Variants, v) {
			return b, fmt.Errorf("--variant %s is given twice", name)
		}
		b.Variants = append(b.Variants, v)
	}
	if o.cpus < 1 {
		return b, fmt.Errorf("--cpus %d: must be at least 1", o.cpus)
	}
	if o.duration < 10*time.Millisecond {
		return b, fmt.Errorf("--duration %v: must be at least 10ms", o.duration)
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return b, fmt.Errorf("ask for the CPUs of this process: %w", err)
	}
	for cpu := 0; cpu < len(allowed)*64 && len(b.CPUs) < o.cpus; cpu++ {
		if allowed.IsSet(cpu) {
			b.CPUs = append(b.CPUs, cpu)
		}
	}
	if len(b.CPUs) == 0 {
		return b, errors.New("this process may run on no CPU")
	}
	return b, nil
}

// benchReport is what bench prints: as a table, or with --json as this object.
type benchReport struct {
	CPUs    []int       `json:"cpus"`
	Results []benchLine `json:"results"`
}

type benchLine struct {
	Variant string  `json:"variant"` // empty: the program that does nothing
	Packets uint64  `json:"packets"` // sent, and counted exactly
	Mpps    float64 `json:"mpps"`    // of all CPUs
	Ns      float64 `json:"ns_per_packet"`
	Spread  float64 `json:"spread"`             // of ns_per_packet, 0.01 = 1 %
	SpeedUp float64 `json:"speed_up,omitempty"` // over naive; missing where that was not measured
	Insns   int     `json:"instructions"`
	Hot     int     `json:"hot_path_instructions"`

	Cycles *float64 `json:"cycles_per_packet,omitempty"` // missing where the machine does not count
	Native *float64 `json:"native_instructions_per_packet,omitempty"`
}

func newBenchReport(results []meter.BenchResult, cpus []int) *benchReport {
	var naive float64
	for _, r := range results {
		if r.Name == meter.Naive.String() {
			naive = r.Mpps
		}
	}
	b := &benchReport{CPUs: cpus}
	for i, r := range results {
		l := benchLine{
			Variant: r.Name, Packets: r.Packets, Mpps: r.Mpps, Ns: r.Ns, Spread: r.Spread,
			Insns: r.Instructions, Hot: r.HotPath,
		}
		if naive > 0 && i > 0 { // the empty program is no variant
			l.SpeedUp = r.Mpps / naive
		}
		if r.Hardware {
			l.Cycles, l.Native = &r.Cycles, &r.NativeInstructions
		}
		b.Results = append(b.Results, l)
	}
	return b
}

func (b *benchReport) writeTable(w io.Writer) {
	fmt.Fprintf(w, "Performance comparison on CPU %v, all at the same time\n", b.CPUs)
	t := &table{}
	t.add("VARIANT", "PACKETS", "MPPS", "NS/PACKET", "SPREAD", "SPEED-UP", "INSNS", "HOT", "CYCLES", "NATIVE")
	for _, l := range b.Results {
		speedUp := "-"
		if l.SpeedUp > 0 {
			speedUp = fixed(l.SpeedUp, 2) + "x"
		}
		t.add(l.Variant, strconv.FormatUint(l.Packets, 10), fixed(l.Mpps, 2), fixed(l.Ns, 1), fixed(100*l.Spread, 1)+" %",
			speedUp, strconv.Itoa(l.Insns), numberOrDash(l.Hot), fixedOrDash(l.Cycles), fixedOrDash(l.Native))
	}
	t.write(w)
}

func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

func fixedOrDash(x *float64) string {
	if x == nil {
		return "-"
	}
	return fixed(*x, 1)
}

func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
