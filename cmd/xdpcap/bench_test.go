package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

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
	skipEmulated(t)
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
	skipEmulated(t)
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
	skipEmulated(t)
	missing := tempFile(t)
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
		root := newRoot()
		root.SetArgs(append([]string{"bench"}, strings.Fields(args)...))
		root.SetOut(&bytes.Buffer{})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %s: %v, want %q", args, err, want)
		}
	}
}

// bench prints a line per variant, and its table is the same whatever it measured. With -i there
// are figures of the interface, too, which runs no program afterwards.
func TestBenchCommand(t *testing.T) {
	skipEmulated(t)
	testnet.RequireLiveFrames(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const took = "40ms"
	args := []string{"bench", "-i", "rx0", "--duration", took, "--variant", "percpu", "--variant", "four", "--json"}
	if status, stderr := start(t, pair.Rx, nil, args...).wait(); status != 1 || !strings.Contains(stderr, "no packet came in on rx0 in the 40ms of empty") ||
		!strings.Contains(stderr, "let another machine send") {
		t.Errorf("without traffic: exit status %d: %s", status, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := make(chan error)
	generator := testnet.MustGenerator(t, pair)
	go func() {
		_, err := generator.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Rate: testnet.Rate(100_000), CPU: -1})
		sent <- err
	}()
	if testnet.Emulated() {
		args[4] = "1s"
	}
	r := lastObject[benchReport](t, benchOutput(t, pair, args...))
	cancel()
	if err := <-sent; err != nil {
		t.Error(err)
	}
	var names []string
	for _, l := range r.Results {
		names = append(names, l.Variant)
		if l.Attached == nil || l.Attached.Packets == 0 || l.Packets == 0 {
			t.Errorf("%+v, at the interface %+v", l, l.Attached)
		}
	}
	if got := strings.Join(names, " "); got != "empty percpu four" || r.Interface != "rx0" || r.Mode != "native" {
		t.Errorf("%s at %s in %s mode", got, r.Interface, r.Mode)
	}
	if name := attached(t, pair); name != "" {
		t.Errorf("%s is attached", name)
	}
	v := testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{Count: true})
	defer v.Close()
	status, stderr := start(t, pair.Rx, nil, args...).wait()
	if status != 1 || !strings.Contains(stderr, "rx0 already runs XDP program count_packets (id ") || !strings.Contains(stderr, "measure that one with --program") {
		t.Errorf("beside another program: exit status %d: %s", status, stderr)
	}
}

// benchOutput runs xdpcap in the namespace of Rx, and returns its standard output.
func benchOutput(t *testing.T, pair *testnet.Pair, args ...string) string {
	t.Helper()
	stdout, err := os.Create(tempFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	if status, stderr := start(t, pair.Rx, stdout, args...).wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	text, err := os.ReadFile(stdout.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A loaded program is measured on the packets of a capture, but only with --yes: without it, the
// program does not run.
func TestBenchProgramCommand(t *testing.T) {
	testnet.RequireRoot(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target, err := testnet.NewTarget(testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	dropped := testnet.UDPFrame(64, 0)
	dropped[36], dropped[37] = 0, testnet.DropPort
	file := writeCapture(t, dropped, testnet.UDPFrame(1000, 1), dropped)
	id := programID(t, target)
	args := []string{"bench", "--program", id, "--packets", file, "--duration", "20ms", "--json"}

	status, stderr := start(t, pair.Rx, nil, args...).wait()
	for _, want := range []string{"--program runs rewriting_targ", "(id " + id + ")", "its maps change", "none is sent", "add --yes if that is meant"} {
		if status != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit status %d: %q does not say %q", status, stderr, want)
		}
	}
	if got := verdicts(t, target); got != [6]uint64{} {
		t.Errorf("without --yes the program ran: %v", got)
	}
	r := lastObject[programReport](t, benchOutput(t, pair, append(args, "--yes")...))
	if drop, pass := r.Verdicts["drop"], r.Verdicts["pass"]; len(r.Verdicts) != 2 || drop.Packets != 2 || drop.Ns == nil || pass.Packets != 1 ||
		pass.Changed != 1 || pass.Ns != nil || r.Total.Packets != 3 || r.More {
		t.Errorf("%+v", r)
	}
	if got := verdicts(t, target); got[xdp.Drop] == 0 {
		t.Errorf("with --yes the program counted %v", got)
	}
	status, stderr = start(t, pair.Rx, nil, "bench", "--program", "nosuch", "--yes").wait()
	if status != 1 || !strings.Contains(stderr, `no XDP program "nosuch" is loaded`) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// writeCapture writes packets into a pcapng file, as another tool than xdpcap does it.
func writeCapture(t *testing.T, packets ...[]byte) string {
	t.Helper()
	f, err := os.Create(tempFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := pcapgo.NewNgWriter(f, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}
		if err := w.WritePacket(info, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
