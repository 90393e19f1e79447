package counters_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// lastJSON decodes the last line that a process printed, which has all of the run.
func lastJSON(t *testing.T, p *systest.Pipe, v any) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.Read(t)), "\n")
	for _, line := range lines {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// send sends frames that the receiver's program has seen when it returns.
func send(t *testing.T, pair *testnet.Pair, frames uint64) (seen uint64) {
	t.Helper()
	_, seen = testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: frames, CPU: -1})
	return seen
}

// xdpcap's own program measures each packet and drops the share that it was told.
func TestLatencyBuiltin(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	out := systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, out.In, "latency", "-i", pair.RxName, "--builtin", "--drop", "20", "--json", "--interval", "100ms")
	sent := send(t, pair, 50_000)
	stderr := p.Interrupt()
	if !strings.Contains(stderr, "measuring with the built-in program") || !strings.Contains(stderr, "it drops 20 %") {
		t.Error(stderr)
	}
	var last systest.LatencyReport
	lastJSON(t, out, &last)
	dropped := last.Verdicts["drop"].Runs
	if last.Total.Runs != sent || dropped+last.Verdicts["pass"].Runs != sent || last.Method != byBuiltin || last.Program != "xdp_dilih" {
		t.Errorf("of %d %+v", sent, last)
	}
	if d := math.Abs(float64(dropped) - 0.2*float64(sent)); d > 5*math.Sqrt(float64(sent)*0.2*0.8) {
		t.Errorf("%d dropped of %d", dropped, sent)
	}
	if name := systest.Attached(t, pair); name != "" {
		t.Errorf("it left %s attached", name)
	}
}

// --events prints a line for each packet, and the table at the end.
func TestLatencyEvents(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	out := systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, out.In, "latency", "-i", pair.RxName, "--builtin", "--events", "--json")
	sent := send(t, pair, 1000)
	p.Interrupt()
	d := json.NewDecoder(strings.NewReader(out.Read(t)))
	d.DisallowUnknownFields()
	var lines uint64
	for ; d.More(); lines++ {
		var l systest.EventLine
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if l.Took <= 0 || l.Verdict != "pass" || time.Since(l.Time).Abs() > testnet.Patience {
			t.Fatalf("%+v", l)
		}
	}
	if lines != sent {
		t.Errorf("%d lines of %d packets", lines, sent)
	}

	out = systest.NewPipe(t)
	p = systest.Listening(t, pair.Rx, out.In, "latency", "-i", pair.RxName, "--builtin", "--drop", "100", "--events")
	systest.SendNumbered(t, pair, 3, 100)
	stderr := p.Interrupt()
	if text := out.Read(t); strings.Count(text, " drop ") != 3 || strings.Count(text, " ns\n") != 3 {
		t.Errorf("%q", text)
	}
	if !strings.Contains(stderr, "\ndrop        3 ") {
		t.Error(stderr)
	}
}

// --kernel-stats shows exactly as many runs as frames were sent.
func TestLatencyKernelStats(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	objects, tables := systest.NewPipe(t), systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, objects.In, "latency", "-i", pair.RxName, "--kernel-stats", "--json")
	q := systest.Listening(t, pair.Rx, tables.In, "latency", "-i", pair.RxName, "--kernel-stats")
	sent := send(t, pair, 20_000)
	if stderr := p.Interrupt(); !strings.Contains(stderr, "measuring by the kernel's run-time counters") {
		t.Error(stderr)
	}
	q.Interrupt()
	var last systest.RuntimeReport
	lastJSON(t, objects, &last)
	if last.Runs != sent || last.Mean <= 0 || last.Program != "count_packets" || last.Method != byKernel {
		t.Errorf("of %d %+v", sent, last)
	}
	if text := tables.Read(t); !strings.Contains(text, "\ncount_packets  20000 ") && sent == 20_000 {
		t.Error(text)
	}
}

// Somebody else's program is measured where the kernel allows that. Where it does not, the error
// names what works instead.
func TestLatencyTrace(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	if testnet.ProbeFentry() != nil {
		status, stderr := systest.Start(t, pair.Rx, nil, "latency", "-i", pair.RxName).Wait()
		for _, want := range []string{"count_packets", "operation not permitted", "--kernel-stats", "--builtin"} {
			if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
				t.Errorf("exit status %d: %s", status, stderr)
			}
		}
	}
	testnet.RequireFentry(t)
	out := systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, out.In, "latency", "-i", pair.RxName, "--json")
	sent := send(t, pair, 20_000)
	if stderr := p.Interrupt(); !strings.Contains(stderr, "measuring by fentry and fexit: the probes add ") {
		t.Error(stderr)
	}
	var last systest.LatencyReport
	lastJSON(t, out, &last)
	if last.Total.Runs != sent || last.Verdicts["drop"].Runs != sent || last.Method != systest.ByTrace || last.Added == nil || *last.Added <= 0 {
		t.Errorf("of %d %+v", sent, last)
	}
}

// Each mistake is one line and exit status 1, and nothing is attached.
func TestLatencyErrors(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddPair(t, pair, "busy0", 1, 1)
	v, err := testnet.AttachReceiver(pair.Rx, "busy0", xdp.Pass, testnet.ReceiverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for args, want := range map[string]string{
		"":                                    "which interface? -i NAME",
		"-i nosuch":                           `interface "nosuch" does not exist`,
		"-i rx0":                              "rx0 runs no XDP program: attach the one to measure, or measure xdpcap's own with --builtin",
		"-i rx0 --kernel-stats":               "rx0 runs no XDP program",
		"-i rx0 --kernel-stats --builtin":     "choose one",
		"-i rx0 --drop 5":                     "add --builtin",
		"-i rx0 --events":                     "add --builtin",
		"-i rx0 --builtin --drop 101":         "must be 0 to 100 percent",
		"-i rx0 --builtin --drop NaN":         "must be 0 to 100 percent",
		"-i rx0 --builtin --events --count 2": "--events prints single measurements",
		"-i rx0 --builtin --xdp-mode fast":    `XDP mode "fast"`,
		"-i rx0 --kernel-stats --per-cpu":     "--per-cpu",
		"-i busy0 --builtin":                  "busy0 runs receiver (id ",
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, append([]string{"latency"}, strings.Fields(args)...)...).Wait()
		if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d: %s", args, status, stderr)
		}
		if name := systest.Attached(t, pair); name != "" {
			t.Errorf("%s: it left %s attached", args, name)
		}
	}
}
