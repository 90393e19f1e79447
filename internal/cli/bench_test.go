package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// goldenBench compares a table of bench and its object with the golden files.
func goldenBench(t *testing.T, name string, r benchPrinter) {
	t.Helper()
	var out bytes.Buffer
	r.writeTable(&out)
	golden(t, name+".txt", out.String())
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, name+".json", string(text)+"\n")
}

func TestBenchTable(t *testing.T) {
	testnet.SkipEmulated(t)
	naive, percpu := meter.BenchSubject{Variant: meter.Naive}, meter.BenchSubject{Variant: meter.PerCPU}
	sizes, sample, flows := percpu, naive, percpu
	sizes.Sizes, sample.Sample, flows.Flows = true, maxBenchSample, meter.NewFlows
	results := []meter.BenchResult{
		{BenchSubject: meter.BenchSubject{Empty: true}, Packets: 9_999_999_999_999, Mpps: 168.32, Ns: 12.1, Spread: 0.342, Instructions: 2, HotPath: 2},
		{BenchSubject: naive, Packets: 37115040, Mpps: 36.6, Ns: 54.75, Spread: 0.0149, Instructions: 299, HotPath: 57},
		{BenchSubject: sample, Packets: 37115040, Mpps: 56.6, Ns: 34.75, Spread: 0.0149, Instructions: 304, HotPath: 62},
		{BenchSubject: percpu, Packets: 37115040, Mpps: 126.78, Ns: 15.8, Instructions: 329, HotPath: 39, Hardware: true, Cycles: 40.25, NativeInstructions: 120.4},
		{BenchSubject: sizes, Packets: 37115040, Mpps: 12634.5, Ns: 1234.5, Spread: 10.25, Instructions: 334},
	}
	of := meter.BenchResult{BenchSubject: flows, Packets: 37115040, Mpps: 11.6, Ns: 85.8, Instructions: 634}
	goldenBench(t, "bench", newBenchReport(append(slices.Clone(results), of), []int{0, 1}, nil))
	attached := &meter.AttachedBench{Interface: "rx0", Mode: xdp.Native}
	for i, r := range results {
		attached.Results = append(attached.Results, meter.AttachedResult{
			BenchSubject: r.BenchSubject, Packets: r.Packets, Mpps: 1.25, Ns: 2*r.Ns + float64(i), Spread: r.Spread, CPU: 1.99,
		})
	}
	goldenBench(t, "bench-attached", newBenchReport(results, []int{0, 1}, attached))
}

func TestBenchProgramTable(t *testing.T) {
	testnet.SkipEmulated(t)
	b := &meter.ProgramBench{
		Program: xdp.Program{ID: 7, Name: "lb"},
		Total:   meter.ProgramCost{Packets: 200, Changed: 150, OnceNs: 123.4, Ns: 12.25, Repeated: 50, Hardware: true, Cycles: 33.3, NativeInstructions: 99},
	}
	b.Verdicts[xdp.Tx] = meter.ProgramCost{Packets: 150, Changed: 150, OnceNs: 140}
	b.Verdicts[xdp.Drop] = meter.ProgramCost{Packets: 50, OnceNs: -0.5, Ns: 12.25, Repeated: 50, Hardware: true, Cycles: 33.3, NativeInstructions: 99}
	goldenBench(t, "bench-program", newProgramReport(b, &meter.BenchPackets{Cut: 3, Short: 1, Long: 1, More: true}, 1))
}

// Flags that have no meaning together, or without another one, are one clear line.
func TestBenchFlags(t *testing.T) {
	testnet.SkipEmulated(t)
	missing := filepath.Join(t.TempDir(), "out.pcapng")
	for args, want := range map[string]string{
		"--variant quick":                   `variant "quick": must be naive, percpu, ultra or four`,
		"--variant ultra --variant ultra":   "--variant ultra is given twice",
		"--cpus 0":                          "--cpus 0: must be at least 1",
		"--duration 1ms":                    "--duration 1ms: must be at least 10ms",
		"--sample 0":                        "--sample 0: must be at least 1, which is every packet",
		"--sample 1000001":                  "and at most 1000000",
		"--packets x.pcapng":                "--packets is for --program NAME, which is missing",
		"--flows -i rx0":                    "--flows changes the packets that it measures with",
		"--yes":                             "--yes is for --program NAME, which is missing",
		"--xdp-mode native":                 "--xdp-mode is for -i NAME, which is missing",
		"-i rx0 --xdp-mode fast":            `--xdp-mode: XDP mode "fast": must be auto, native or generic`,
		"--program lb --sizes":              "--sizes is for the variants of count, and --program measures another program",
		"--program lb -i rx0":               "--interface is for the variants of count",
		"--program=":                        "--program: which program?",
		"--program lb --packets " + missing: "--packets: open " + missing + ": no such file",
		"--program lb --packets bench.go":   "--packets bench.go: it is neither pcapng nor pcap",
	} {
		root := NewRoot()
		root.SetArgs(append([]string{"bench"}, strings.Fields(args)...))
		root.SetOut(&bytes.Buffer{})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %s: %v, want %q", args, err, want)
		}
	}
}
