package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A packet socket's frames arrive, as many as it says.
func TestSocketSender(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	l, err := newLane(networkOptions{jumbo: true, cpus: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	r := testnet.MustReceiver(t, l.pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	sent, rate, err := l.send(t.Context(), jumboSize, testnet.Rate(5000), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	total, err := r.Total()
	if err != nil || sent == 0 || rate == 0 || total.Packets != sent || total.Bytes != sent*jumboSize {
		t.Errorf("sent %d frames at %.0f per second, received %+v, %v", sent, rate, total, err)
	}
}

// What is copied while traffic runs is read beside it, and what traffic runs beside it is measured.
// It runs alone: other tests would make it lose packets.
func TestCopying(t *testing.T) {
	testnet.RequireLiveFrames(t)
	n, err := newNetwork(networkOptions{cpus: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	w := load{size: testnet.MinFrame, rate: testnet.Rate(100_000), bursts: 2, time: 200 * time.Millisecond, beside: n.pass}
	got, err := n.copying(t.Context(), xdp.Drop, w)
	if err != nil {
		t.Fatal(err)
	}
	if got.sent == 0 || got.captured != got.sent || got.lost != 0 || got.cpu == 0 || len(got.rates) != 2 || len(got.keeps) != 2 {
		t.Errorf("%+v", got)
	}
}

// A process does nothing while it is paused, and is looked at until it rests. It does not rest
// while it waits for its CPU, which somebody else has. It runs alone: it looks at CPU time.
func TestPauseFor(t *testing.T) {
	testnet.RequireRoot(t)
	for _, beside := range []time.Duration{0, 100 * time.Millisecond} {
		t.Run(fmt.Sprintf("beside %v of other work", beside), func(t *testing.T) { testPauseFor(t, beside) })
	}
}

func testPauseFor(t *testing.T, beside time.Duration) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	// It is busy until there is a file.
	path := filepath.Join(t.TempDir(), "file")
	busy := `echo ready; while [ ! -e ` + path + ` ]; do :; done; echo done; exec sleep 1000`
	p, err := startProcess(t.Context(), pair.Rx, tool{args: []string{"sh", "-c", busy}, ready: "ready"}, toolCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	var rival sync.WaitGroup
	defer rival.Wait()
	looks, err := p.pauseFor(t.Context(), func() error {
		if beside == 0 {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
		}
		// The kernel says that a process has stopped just before it leaves its CPU, and a busy
		// machine may come in between.
		var before time.Duration
		testnet.WaitFor(t, "50 ms in which the process does not run", func() bool {
			var err error
			before, err = p.cpu()
			time.Sleep(50 * time.Millisecond)
			after, failed := p.cpu()
			return err == nil && failed == nil && after == before
		})
		if strings.Contains(p.said.text(), "done") {
			t.Errorf("said %q while it was paused", p.said.text())
		}
		if beside > 0 {
			rival.Go(func() {
				if err := machine.Quiet(1, func() error { return takeCPU(p, before, beside, path) }); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if runs, err := p.runs(); runs || err != nil {
		t.Errorf("it still runs, %v", err)
	}
	if last := looks[len(looks)-1]; last.cpu <= 0 || last.at < idleTime {
		t.Errorf("%+v", last)
	}
	testnet.WaitFor(t, "its last word", func() bool { return strings.Contains(p.said.text(), "done") })
}

// takeCPU takes the CPU away from a process for some time, once that has run again, and then lets
// it find its file.
func takeCPU(p *process, before, beside time.Duration, path string) error {
	for now := before; now == before; {
		time.Sleep(lookTime)
		var err error
		if now, err = p.cpu(); err != nil {
			return err
		}
	}
	schedule := func(policy uint32) error {
		return unix.SchedSetAttr(p.cmd.Process.Pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0)
	}
	if err := schedule(unix.SCHED_IDLE); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < beside; { // runtime.Gosched would leave the CPU
	}
	return errors.Join(schedule(unix.SCHED_NORMAL), os.WriteFile(path, nil, 0o600))
}

// A pipe is taken to its end, and nothing of it for a second.
func TestReadAndStall(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	written := make(chan error, 1)
	go func() {
		_, err := to.Write(make([]byte, 3<<20)) // more than the pipe holds
		written <- errors.Join(err, to.Close())
	}()
	began := time.Now()
	if err := readAndStall(from, began.Add(-stallAfter)); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil || time.Since(began) < stallTime {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A thread that only copies empties rings, too, and leaves no file.
func TestCopyDrain(t *testing.T) {
	t.Parallel()
	for _, d := range []drainage{
		{size: testnet.MinFrame, rings: 2, to: nowhere},
		{size: longSize, rings: 1, to: inMemory},
	} {
		path := d.path(t.TempDir())
		all, err := copyDrain(&d, path, 2)
		if err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		if cpu, rate := all.figures(); len(all.all) != 2 || cpu <= 0 || rate <= 0 {
			t.Errorf("%+v: %v ns, %v packets/s", d, cpu, rate)
		}
		if _, err := os.Stat(path); path != nowhere && err == nil {
			t.Errorf("%s was left", path)
		}
	}
}

// mustLab makes a lab with one CPU, which is closed when the test ends.
func mustLab(t *testing.T, runs int) *lab {
	t.Helper()
	testnet.RequireLiveFrames(t)
	l, err := newLab(networkOptions{cpus: 1}, runs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	return l
}

// Programs are run by BPF_PROG_RUN as often as was asked for, and cost something.
func TestProgramCost(t *testing.T) {
	t.Parallel()
	l := mustLab(t, 3)
	copied, err := l.copyCost(t.Context(), longSize)
	if err != nil || len(copied) != l.runs || slices.Max(copied) <= 0 { // beside other work a run can seem to take nothing
		t.Errorf("to copy costs %v ns, %v", copied, err)
	}
	if counted, err := l.countCost(t.Context()); err != nil || len(counted) != l.runs {
		t.Errorf("to count costs %v ns, %v", counted, err)
	}
}

// The stack throws the packets away whose cost is measured, one by one, and none of the others.
func TestStackFrames(t *testing.T) {
	t.Parallel()
	l := mustLab(t, 1)
	const frames = 500
	for _, test := range []struct {
		name  string
		frame []byte
		want  uint64
	}{
		{"thrown away", thrownAwayFrame(testnet.MinFrame), frames},
		{"not thrown away", consumedFrame(), 0},
	} {
		var s *capture.Session
		err := l.pass.pair.Rx.Do(func() (err error) {
			s, err = capture.Open(capture.Options{Interfaces: []string{rxName}, StackDrops: true, Reasons: []string{thrownAwayFor}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		ns, err := l.passToStack(test.frame, frames/2, 2)
		if err != nil || len(ns) != 2 { // an emulated machine's clock is too coarse for their values
			t.Errorf("%s: %v ns, %v", test.name, ns, err)
		}
		accounts, err := s.Accounts()
		if err != nil || len(accounts) != 1 || accounts[0].Seen != test.want || accounts[0].FilteredOut != 0 {
			t.Errorf("%s: %+v of %d, %v", test.name, accounts, frames, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What --drops costs is measured for each transport, and costs something where packets are thrown
// away.
func TestStackCost(t *testing.T) {
	path := os.Getenv("XDPCAP")
	if path == "" {
		t.Skip("measures bin/xdpcap: make test builds it")
	}
	var b bench
	if err := b.add(path, io.Discard); err != nil {
		t.Fatal(err)
	}
	p := b.programs[0]
	l := mustLab(t, stackRuns)
	for _, c := range configs {
		if c.place != atStack {
			continue
		}
		for _, transport := range transports {
			all, err := l.captureCost(t.Context(), p, &c, transport)
			if err != nil || len(all) != stackRuns || c.kept > 0 && slices.Max(all) <= 0 {
				t.Errorf("%s, %s: %v ns, %v", c.what, transport, all, err)
			}
			t.Logf("%s, %s: %.0f ns", c.what, transport, all)
		}
	}
	drops := tool{args: []string{path, "drops", "-i", rxName, "udp"}, ready: "counting packets"}
	if all, err := l.dropsCost(t.Context(), drops, thrownAwayFrame(shortSize)); err != nil || len(all) != stackRuns || slices.Max(all) <= 0 {
		t.Errorf("drops: %v ns, %v", all, err)
	}
	if _, err := l.captureCost(t.Context(), &program{path: path, help: "none"}, &config{place: atStack}, perf); err == nil {
		t.Error("an xdpcap without --drops was measured")
	}
}

// The kernel's cost of a packet at tc is measured in both directions, and TCP beside xdpcap there.
func TestAtTC(t *testing.T) {
	path := os.Getenv("XDPCAP")
	if path == "" {
		t.Skip("measures bin/xdpcap: make test builds it")
	}
	b := &bench{effort: effort{bursts: 1}}
	if err := b.add(path, io.Discard); err != nil {
		t.Fatal(err)
	}
	p := b.programs[0]
	l := mustLab(t, 3)
	for _, at := range []place{atIngress, atEgress} {
		all, err := l.captureCost(t.Context(), p, &config{size: shortSize, kept: 1, place: at}, ring)
		if err != nil || len(all) != 3 || slices.Max(all) <= 0 {
			t.Errorf("place %d: %v ns, %v", at, all, err)
		}
		t.Logf("place %d: %.0f ns", at, all)
	}
	var opened closers
	defer opened.close()
	pair, err := newTCPPair(&opened)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range append(p.tcpTools(), pick(others(), tcpdumpName)...) {
		line, err := b.besideTCP(t.Context(), pair, pair, tool)
		if err != nil {
			t.Errorf("%s: %v", tool.name, err)
			continue
		}
		if rate, ok := line.Value(bytesSecond); !ok || rate <= 0 {
			t.Errorf("%s: %v", tool.name, line.Values)
		}
		t.Logf("%s: %v", tool.name, line.Values)
	}
}
