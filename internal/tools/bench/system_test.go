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
	l := newLane(t, networkOptions{isJumbo: true})
	r := testnet.MustReceiver(t, l.pair, xdp.Drop, testnet.ReceiverOptions{Count: true})
	sent, rate := l.send(t, jumboSize, testnet.Rate(5000), 200*time.Millisecond)
	total, err := r.Total()
	if err != nil || sent == 0 || rate == 0 || total.Packets != sent || total.Bytes != sent*jumboSize {
		t.Errorf("sent %d frames at %.0f per second, received %+v, %v", sent, rate, total, err)
	}
}

// The copies are read while traffic runs, and the traffic beside it is measured.
// It runs alone: other tests would make it lose packets.
func TestCopying(t *testing.T) {
	testnet.RequireLiveFrames(t)
	n := newNetwork(t, networkOptions{})
	w := load{size: testnet.MinFrame, rate: testnet.Rate(100_000), bursts: 2, time: 200 * time.Millisecond, beside: n.pass}
	got := n.besideCopying(t, xdp.Drop, w)
	if got.sent == 0 || got.captured != got.sent || got.lost != 0 || got.cpu == 0 || len(got.rates) != 2 || len(got.keeps) != 2 {
		t.Errorf("%+v", got)
	}
}

// A paused process uses no CPU time, and a resumed one is sampled until it is idle. It is not idle
// while it waits for its CPU, which another process has. It runs alone: it measures CPU time.
func TestPauseDuring(t *testing.T) {
	testnet.RequireRoot(t)
	for _, beside := range []time.Duration{0, 100 * time.Millisecond} {
		t.Run(fmt.Sprintf("beside %v of other work", beside), func(t *testing.T) { testPauseDuring(t, beside) })
	}
}

func testPauseDuring(t *testing.T, beside time.Duration) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	// It is busy until there is a file.
	path := filepath.Join(t.TempDir(), "file")
	busy := `echo ready; while [ ! -e ` + path + ` ]; do :; done; echo done; exec sleep 1000`
	p := startProcess(t, pair.Rx, tool{args: []string{"sh", "-c", busy}, ready: "ready"}, toolCPU)
	var rival sync.WaitGroup
	defer rival.Wait()
	samples := p.pauseDuring(func() {
		if beside == 0 {
			testnet.Must(t, os.WriteFile(path, nil, 0o600))
		}
		// The kernel says that a process has stopped just before it leaves its CPU, and a busy
		// machine may come in between.
		var before time.Duration
		testnet.WaitFor(t, "50 ms in which the process does not run", func() bool {
			before = p.cpu()
			time.Sleep(50 * time.Millisecond)
			return p.cpu() == before
		})
		if strings.Contains(p.Output(), "done") {
			t.Errorf("printed %q while it was paused", p.Output())
		}
		if beside > 0 {
			rival.Go(func() {
				if err := machine.Quiet(1, func() error { return takeCPU(p, before, beside, path) }); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if p.isRunnable() {
		t.Error("it still runs")
	}
	if last := samples[len(samples)-1]; last.cpu <= 0 || last.at < idleTime {
		t.Errorf("%+v", last)
	}
	testnet.WaitFor(t, "its last word", func() bool { return strings.Contains(p.Output(), "done") })
}

// takeCPU takes the CPU away from a process for some time, once that has run again, and then lets
// it find its file.
func takeCPU(p *process, before, beside time.Duration, path string) error {
	for p.cpu() == before {
		time.Sleep(sampleInterval)
	}
	schedule := func(policy uint32) error {
		return unix.SchedSetAttr(p.Cmd.Process.Pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0)
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
		var all *laps
		testnet.Within(t, func(t testnet.TB) { all = copyDrain(t, &d, path, 2) })
		if cpu, rate := all.figures(); len(all.full) != 2 || cpu <= 0 || rate <= 0 {
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
	return newLab(t, networkOptions{}, runs)
}

// Programs are run by BPF_PROG_RUN as often as was asked for, and cost something.
func TestProgramCost(t *testing.T) {
	t.Parallel()
	l := mustLab(t, 3)
	// Beside other work one run can seem to take no time.
	if copied := l.copyCost(t, longSize); len(copied) != l.runs || slices.Max(copied) <= 0 {
		t.Errorf("to copy costs %v ns", copied)
	}
	if counted := l.countCost(t); len(counted) != l.runs {
		t.Errorf("to count costs %v ns", counted)
	}
}

// The stack drops each of the packets whose cost is measured as dropped, and none of the others.
func TestStackFrames(t *testing.T) {
	t.Parallel()
	l := mustLab(t, 1)
	const frames = 500
	for _, test := range []struct {
		name  string
		frame []byte
		want  uint64
	}{
		{"dropped", droppedFrame(testnet.MinFrame), frames},
		{"consumed", consumedFrame(), 0},
	} {
		var s *capture.Session
		err := l.pass.pair.Rx.Do(func() (err error) {
			s, err = capture.Open(capture.Options{Interfaces: []string{rxName}, StackDrops: true, Reasons: []string{dropReason}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		ns := l.passToStack(t, stackLoad{frame: test.frame, repeat: frames / 2}, 2)
		if len(ns) != 2 { // an emulated machine's clock is too coarse for their values
			t.Errorf("%s: %v ns", test.name, ns)
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

// measuredXdpcap returns a bench of bin/xdpcap.
func measuredXdpcap(t *testing.T, e effort) *bench {
	t.Helper()
	path := os.Getenv("XDPCAP")
	if path == "" {
		t.Skip("measures bin/xdpcap: make test builds it")
	}
	b := &bench{effort: e}
	testnet.Must(t, b.addProgram(path, io.Discard))
	return b
}

// The cost of --drops is measured for each transport, and is above zero where packets are dropped.
func TestStackCost(t *testing.T) {
	p := measuredXdpcap(t, effort{}).programs[0]
	l := mustLab(t, stackRuns)
	for _, c := range configs {
		if c.place != atStack {
			continue
		}
		for _, transport := range transports {
			all := l.captureCost(t, p, &c, transport)
			if len(all) != stackRuns || c.ringShare > 0 && slices.Max(all) <= 0 {
				t.Errorf("%s, %s: %v ns", c.name, transport, all)
			}
			t.Logf("%s, %s: %.0f ns", c.name, transport, all)
		}
	}
	drops := tool{args: []string{p.path, "drops", "-i", rxName, "udp"}, ready: counting}
	if all := l.stackCost(t, drops, stackLoad{droppedFrame(shortSize), mostRepeat, true}); len(all) != stackRuns || slices.Max(all) <= 0 {
		t.Errorf("drops: %v ns", all)
	}
}

// A flag that an older xdpcap does not have is the reason of a row without figures.
func TestUnknownFlag(t *testing.T) {
	p := measuredXdpcap(t, effort{}).programs[0]
	l := mustLab(t, 1)
	unknown := config{place: atXDP, size: shortSize, args: []string{"--from-the-future"}}
	err := testnet.Try(t.Context(), func(t testnet.TB) { l.captureCost(t, p, &unknown, ring) })
	if err == nil || !strings.Contains(err.Error(), "ended at once: ") || !strings.Contains(err.Error(), "--from-the-future") {
		t.Errorf("%v", err)
	}
}

// The kernel's cost of a packet at tc is measured in both directions, and TCP beside xdpcap there.
func TestAtTC(t *testing.T) {
	b := measuredXdpcap(t, effort{bursts: 1})
	p := b.programs[0]
	l := mustLab(t, 3)
	for _, at := range []place{atIngress, atEgress} {
		all := l.captureCost(t, p, &config{size: shortSize, ringShare: 1, place: at}, ring)
		if len(all) != 3 || slices.Max(all) <= 0 {
			t.Errorf("place %d: %v ns", at, all)
		}
		t.Logf("place %d: %.0f ns", at, all)
	}
	pair := newTCPPair(t)
	for _, tool := range append(p.tcpTools(), pick(others(), tcpdumpName)...) {
		testnet.Within(t, func(tb testnet.TB) {
			line := b.besideTCP(tb, pair, pair, tool)
			if rate, ok := line.Value(unitBytesSecond); !ok || rate <= 0 {
				t.Errorf("%s: %v", tool.name, line.Values)
			}
			t.Logf("%s: %v", tool.name, line.Values)
		})
	}
}
