package files_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
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
func unreadable(t *testing.T, pair *testnet.Pair, args string) *systest.Process {
	t.Helper()
	_, w := fullPipe(t)
	p := &systest.Process{T: t, Cmd: systest.Command(strings.Fields(args)...), Done: make(chan struct{})}
	p.Cmd.Stderr = w
	if err := pair.Rx.Start(p.Cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Cmd.Wait()
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.Cmd.Process.Kill()
		<-p.Done
	})
	return p
}

// If nobody reads stderr, a capture still captures, finishes its file and ends.
func TestUnreadStderr(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := unreadable(t, pair, "-i rx0 -w "+file)
	testnet.WaitFor(t, "the capture to attach", func() bool { return systest.Attached(t, pair) != "" })
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 1000, Rate: 20_000})
	testnet.WaitFor(t, "packets in the file", func() bool { return packetBlocks(t, file) == 1000 })
	for range 50 {
		p.Cmd.Process.Signal(syscall.SIGUSR1)
	}
	p.Cmd.Process.Signal(os.Interrupt)
	if status, _ := p.Wait(); status != 0 {
		t.Errorf("%v", p.Cmd.ProcessState)
	}
	records, r := systest.ReadFile(t, file)
	if len(records) != 1000 || systest.Statistics(t, r).PacketsReceived != 1000 {
		t.Errorf("%d packets in the file, statistics %+v", len(records), systest.Statistics(t, r))
	}
}

// Nor do the other commands, or an error, wait for a reader of stderr.
func TestUnreadStderrOfOthers(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	var running []*systest.Process
	for _, args := range []string{"-i nosuch", "stats -i rx0 --count 1", "monitor --count 1"} {
		running = append(running, unreadable(t, pair, args))
	}
	for i, p := range running {
		want := 0
		if i == 0 {
			want = 1
		}
		if status, _ := p.Wait(); status != want {
			t.Errorf("%v: exit status %d", p.Cmd.Args[1:], status)
		}
	}
}
