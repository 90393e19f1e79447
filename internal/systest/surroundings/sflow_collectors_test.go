package surroundings_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Other programs decode flow samples, counters and discarded packets as they were sent, and like a
// collector of this test: goflow2, and sfacctd. sfacctd does not support discarded packets, and
// decodes no samples after one in a datagram. It gets all flow samples, because these are in other
// datagrams.
func TestSFlowCollectors(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.ListenSFlow(t, pair.Rx)
	collectors := []string{"-w", "sflow://" + l.Address}
	goflow2 := startGoflow2(t, pair, 7001)
	sfacctd := startSfacctd(t, pair, 7002)
	// Counters are sent once, at the start. If they were sent again when the capture ends, one
	// collector might get them and the other not.
	collectors = append(collectors, "-w", "sflow://127.0.0.1:7001", "-w", "sflow://localhost:7002", "--counter-interval", "1h")

	// A program's hook map provides verdicts even if the kernel cannot trace.
	target := testnet.MustTarget(t, pair, testnet.Hooked)
	p := systest.Listening(t, pair.Rx, nil, append(collectors, "--hook", systest.PinHook(t, target.Hook()), "--sflow-agent", "192.0.2.7,70000")...)
	frames := systest.SendRound(t, pair)
	p.Interrupt()
	testnet.Must(t, target.Close())
	p = systest.Listening(t, pair.Rx, nil, append(collectors, "-i", pair.RxName, "--sample", "2")...)
	for i := range uint16(40) {
		testnet.Send(t, pair, testnet.VLAN(testnet.TxToRx().UDP(2000+i, 53, make([]byte, 300)), 100+i))
	}
	waitForCounters(t, l, goflow2)
	p.Interrupt()

	all := l.Read(t)
	flows, discards := systest.SamplesOf(all, systest.FlowSample), systest.SamplesOf(all, systest.DiscardedSample)
	// Each CPU draws one of two of its own packets. From an odd number it may keep the smaller
	// half.
	if sampled := (40 - runtime.NumCPU()) / 2; len(flows) < len(frames)-1+sampled || len(discards) != 2 {
		t.Fatalf("%d flow samples and %d discarded packets", len(flows), len(discards))
	}
	systest.CheckDiscards(t, discards, frames, 0, "")
	systest.CheckOutputs(t, flows[:5], true, 0)
	t.Run("goflow2", func(t *testing.T) { goflow2.check(t, all) })
	t.Run("sfacctd", func(t *testing.T) { sfacctd.check(t, flows) })
}

// waitForCounters waits until both collectors have the counters of the interface, because a capture
// that ends at once may have sent them to only one.
func waitForCounters(t *testing.T, l *systest.SflowListener, g *goflow2) {
	t.Helper()
	testnet.WaitFor(t, "the counters of the interface", func() bool {
		decoded := strings.Join(g.read(t), "\n")
		return len(systest.SamplesOf(l.Read(t), systest.CounterSample)) > 0 && strings.Contains(decoded, fmt.Sprintf(" type %d ", systest.CounterSample))
	})
}

// startCollector starts a program in the pair's namespace, and waits until it receives on a UDP
// port.
func startCollector(t *testing.T, pair *testnet.Pair, port uint16, name string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	testnet.Must(t, pair.Rx.Start(cmd))
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, output.String())
		}
	})
	testnet.WaitFor(t, name, func() bool {
		for _, table := range []string{"udp", "udp6"} {
			sockets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", cmd.Process.Pid, table))
			if strings.Contains(string(sockets), fmt.Sprintf(":%04X ", port)) {
				return true
			}
		}
		return false
	})
}
