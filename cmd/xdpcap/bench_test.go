package main_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

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
	r := lastObject[benchReport](t, benchTraffic(t, pair, args))
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

// benchTraffic is benchOutput where packets come in. On a busy machine their sender waits for a
// CPU, so it gives every program more time where one has seen no packet.
func benchTraffic(t *testing.T, pair *testnet.Pair, args []string) string {
	t.Helper()
	for took := 40 * time.Millisecond; ; took *= 4 {
		args[4] = took.String()
		status, stdout, stderr := runBench(t, pair, args...)
		if status == 0 {
			return stdout
		}
		if !strings.Contains(stderr, "no packet came in") || took > 10*time.Second {
			t.Fatalf("exit status %d: %s", status, stderr)
		}
	}
}

// benchOutput runs xdpcap in the namespace of Rx, and returns its standard output.
func benchOutput(t *testing.T, pair *testnet.Pair, args ...string) string {
	t.Helper()
	status, stdout, stderr := runBench(t, pair, args...)
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	return stdout
}

func runBench(t *testing.T, pair *testnet.Pair, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	out, err := os.Create(tempFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	status, stderr = start(t, pair.Rx, out, args...).wait()
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return status, string(text), stderr
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
