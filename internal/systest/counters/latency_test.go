package counters_test

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// send sends frames, and returns when the receiver's program has run for them.
func send(t *testing.T, pair *testnet.Pair, frames uint64) (seen uint64) {
	t.Helper()
	_, seen = testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: frames, CPU: -1})
	return seen
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
	last := systest.LastObject[systest.RuntimeReport](t, objects.Read(t))
	if last.Runs != sent || last.Mean <= 0 || last.Program != "count_packets" || last.Method != "kernel-stats" {
		t.Errorf("of %d %+v", sent, last)
	}
	if text := tables.Read(t); !strings.Contains(text, "\ncount_packets  20000 ") && sent == 20_000 {
		t.Error(text)
	}
}

// A foreign program is measured if the kernel allows it. Otherwise the error names an alternative.
func TestLatencyTrace(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustReceiver(t, pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	if testnet.ProbeFentry() != nil {
		status, stderr := systest.Start(t, pair.Rx, nil, "latency", "-i", pair.RxName).Wait()
		for _, want := range []string{"count_packets", "operation not permitted", "--kernel-stats"} {
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
	last := systest.LastObject[systest.LatencyReport](t, out.Read(t))
	if last.Total.Runs != sent || last.Verdicts["drop"].Runs != sent || last.Method != systest.ByTrace || last.Added == nil || *last.Added <= 0 {
		t.Errorf("of %d %+v", sent, last)
	}
}
