package main_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// fullPipe returns both ends of a pipe that takes nothing more until somebody reads.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return r, w
}

// unreadable runs xdpcap with a stderr that takes nothing.
func unreadable(t *testing.T, pair *testnet.Pair, args string) *process {
	t.Helper()
	_, w := fullPipe(t)
	p := &process{t: t, cmd: command(strings.Fields(args)...), done: make(chan struct{})}
	p.cmd.Stderr = w
	if err := pair.Rx.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// If nobody reads stderr, a capture still captures, finishes its file and ends.
func TestUnreadStderr(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := tempFile(t)
	p := unreadable(t, pair, "-i rx0 -w "+file)
	testnet.WaitFor(t, "the capture to attach", func() bool { return attached(t, pair) != "" })
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 1000, Rate: 20_000})
	testnet.WaitFor(t, "packets in the file", func() bool { return packetBlocks(t, file) == 1000 })
	for range 50 {
		p.cmd.Process.Signal(syscall.SIGUSR1)
	}
	p.cmd.Process.Signal(os.Interrupt)
	if status, _ := p.wait(); status != 0 {
		t.Errorf("%v", p.cmd.ProcessState)
	}
	records, r := readFile(t, file)
	if len(records) != 1000 || statistics(t, r).PacketsReceived != 1000 {
		t.Errorf("%d packets in the file, statistics %+v", len(records), statistics(t, r))
	}
}

// Nor do the other commands, or an error, wait for a reader of stderr.
func TestUnreadStderrOfOthers(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	var running []*process
	for _, args := range []string{"-i nosuch", "stats -i rx0 --count 1", "monitor --count 1"} {
		running = append(running, unreadable(t, pair, args))
	}
	for i, p := range running {
		want := 0
		if i == 0 {
			want = 1
		}
		if status, _ := p.wait(); status != want {
			t.Errorf("%v: exit status %d", p.cmd.Args[1:], status)
		}
	}
}
