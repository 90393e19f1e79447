package main_test

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// unread runs a capture whose file is a pipe that the returned reader has not read. It hangs in a
// write, with packets in its queue.
func unread(t *testing.T, pair *testnet.Pair) (*process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	p := listening(t, pair.Rx, w, "-i", pair.RxName, "-w", "-")
	w.Close()
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1500, 0), Count: 1000, Rate: 20_000})
	return p, r
}

// signalDetached sends a signal to end, and waits until the capture has begun to end.
func signalDetached(t *testing.T, pair *testnet.Pair, p *process, sig syscall.Signal) {
	t.Helper()
	p.cmd.Process.Signal(sig)
	testnet.WaitFor(t, "the capture to detach", func() bool { return attached(t, pair) == "" })
}

// spared returns a process that has got signals and has ended, but was not killed by them. A signal
// rightly kills a process that gets no CPU for a second after it, so spared tries three times.
func spared(try func() *process) (p *process) {
	for range 3 {
		p = try()
		p.wait()
		if !p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			break
		}
	}
	return p
}

// A second signal does not end a capture that goes on writing: timeout(1) sends two, and so does
// a terminal that is closed.
func TestSecondSignal(t *testing.T) {
	skipEmulated(t)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // as in TestSignals
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		var file []byte
		p := spared(func() *process {
			p, r := unread(t, pair)
			signalDetached(t, pair, p, sig)
			p.cmd.Process.Signal(sig)
			var err error
			if file, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
			return p
		})
		status, stderr := p.wait()
		want := "xdpcap: 1000 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 1000 captured\n"
		if status != 0 || !strings.HasSuffix(stderr, want) {
			t.Errorf("%v twice: exit status %d: %s", sig, status, stderr)
		}
		path := tempFile(t)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if records, r := readFile(t, path); len(records) != 1000 || statistics(t, r).PacketsReceived != 1000 {
			t.Errorf("%v twice: %d packets in the file, statistics %+v", sig, len(records), statistics(t, r))
		}
	}
}

// However many signals come, an ending that goes on writing takes its time.
func TestSignalsSpareWriting(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	var size int
	p := spared(func() *process {
		p, r := unread(t, pair)
		signalDetached(t, pair, p, syscall.SIGINT)
		some := make([]byte, 32<<10)
		for size = 0; ; {
			p.cmd.Process.Signal(syscall.SIGINT)
			n, err := io.ReadFull(r, some)
			size += n
			if err != nil {
				return p
			}
			time.Sleep(50 * time.Millisecond) // a slow reader
		}
	})
	if status, stderr := p.wait(); status != 0 || size < 1000*1500 || !strings.Contains(stderr, " 1000 captured\n") {
		t.Errorf("%v after %d bytes: %s", p.cmd.ProcessState, size, stderr)
	}
}

// Signals that go on end a capture that hangs.
func TestSignalsEndHanging(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ sent, died syscall.Signal }{
		{syscall.SIGINT, syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGQUIT, syscall.SIGTERM},
	} {
		p, _ := unread(t, pair)
		signalDetached(t, pair, p, test.sent)
		// The kernel makes one of signals that come before the process gets its turn, so more than
		// the two that are still needed are sent.
		testnet.WaitFor(t, "the process to die", func() bool {
			p.cmd.Process.Signal(test.sent)
			return isClosed(p.done)
		})
		_, stderr := p.wait()
		if s := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != test.died {
			t.Errorf("%v three times: %v: %s", test.sent, p.cmd.ProcessState, stderr)
		}
		if n := strings.Count(stderr, "\n"); n != 1 {
			t.Errorf("%v three times: %d lines: %s", test.sent, n, stderr)
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// statistics returns what a file says of its first interface.
func statistics(t *testing.T, r *pcapgo.NgReader) pcapgo.NgInterfaceStatistics {
	t.Helper()
	ifi, err := r.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	return ifi.Statistics
}

// generate sends frames at a rate until the test ends.
func generate(t *testing.T, pair *testnet.Pair, rate float64) {
	t.Helper()
	g := testnet.MustGenerator(t, pair)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := g.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Rate: testnet.Rate(rate)})
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// As `timeout 1 xdpcap ...`, which signals its child and then the child's group, ends a capture
// while packets come in.
func TestTimeout(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	generate(t, pair, 200_000)
	rounds := 10
	if testnet.Emulated() {
		rounds = 3
	}
	for range rounds {
		file := tempFile(t)
		p := start(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-s", "64", "--json")
		testnet.WaitFor(t, "packets", func() bool { return fileSize(file) > 10_000 })
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Process.Signal(syscall.SIGTERM)
		status, stderr := p.wait()
		if status != 0 {
			t.Fatalf("%v: %s", p.cmd.ProcessState, stderr)
		}
		s := account(t, stderr)
		records, r := readFile(t, file)
		if uint64(len(records)) != s.Captured || s.Captured == 0 {
			t.Errorf("%d packets in the file, summary %+v", len(records), s)
		}
		if got := statistics(t, r); got.PacketsReceived != s.Seen {
			t.Errorf("statistics %+v, summary %+v", got, s)
		}
	}
}

// A signal that comes while a capture begins ends it as a later one does. Where it does not begin,
// since the file with its filter cannot be read to the end, the signal ends the wait for that.
func TestSignalAtStart(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	filter := filepath.Join(t.TempDir(), "filter")
	if err := syscall.Mkfifo(filter, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, begins := range []bool{true, false} {
		file := tempFile(t)
		p := spared(func() *process {
			p := start(t, pair.Rx, nil, "-i", pair.RxName, "-F", filter, "-w", file, "--json")
			w, err := os.OpenFile(filter, os.O_WRONLY, 0) // returns when xdpcap reads
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if begins {
				w.Close()
				testnet.WaitFor(t, "the filter to be read", func() bool { return !holds(p, filter) })
			}
			p.cmd.Process.Signal(syscall.SIGTERM)
			p.wait()
			return p
		})
		status, stderr := p.wait()
		if !begins {
			if status != 1 || !strings.Contains(stderr, "a signal ended the wait for it") || fileSize(file) > 0 {
				t.Errorf("%v, and a file of %d bytes: %s", p.cmd.ProcessState, fileSize(file), stderr)
			}
			continue
		}
		if s := account(t, stderr); status != 0 || s.Captured != 0 {
			t.Errorf("%v, summary %+v: %s", p.cmd.ProcessState, s, stderr)
		}
		if _, r := readFile(t, file); statistics(t, r).PacketsReceived != 0 {
			t.Errorf("statistics %+v", statistics(t, r))
		}
		checkDetached(t, pair)
	}
}

// Every command ends by itself after a burst of signals, and says what it has seen.
func TestSignalBurst(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ args, want string }{
		{"-i rx0", "0 seen = "},
		{"stats -i rx0", "total"},
		{"count -i rx0", "total"},
		{"monitor", "total"},
		{"drops -i rx0", "total"},
		{"monitor --record 10", ""},
		{"latency -i rx0 --builtin", "total"},
		{"latency -i rx0 --builtin --events", "rx0"},
	} {
		out, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		p := listening(t, pair.Rx, out, strings.Fields(test.args)...)
		for range 2 {
			p.cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(2 * time.Millisecond) // a burst, of which the kernel does not make one
		}
		status, stderr := p.wait()
		printed, _ := os.ReadFile(out.Name())
		if status != 0 || !strings.Contains(string(printed)+stderr, test.want) {
			t.Errorf("%s: %v: %s%s", test.args, p.cmd.ProcessState, printed, stderr)
		}
	}
}
