package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// mustFifo makes a FIFO without a process at its other end.
func mustFifo(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testnet.Must(t, unix.Mkfifo(path, 0o600))
	return path
}

// holds reports whether a process has a file open.
func holds(p *systest.Process, path string) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Cmd.Process.Pid))
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, err := os.Readlink(fd)
		return err == nil && to == path
	})
}

// The first signal ends every command that waits for the other end of a FIFO.
func TestFifoWithoutPeer(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		name   string
		args   func(fifo, other string) []string
		opens  bool // it opens the other file before the FIFO
		status int
		said   string
	}{
		{"write", func(fifo, other string) []string { return []string{"-i", pair.RxName, "-w", other, "-w", fifo} }, true, 1, ": nobody reads from it\n"},
		{"read", func(fifo, _ string) []string { return []string{"read", fifo} }, false, 0, ""},
		{"certificate", func(fifo, _ string) []string {
			return []string{"-i", pair.RxName, "--serve", "127.0.0.1:0", "--tls-cert", fifo, "--tls-key", fifo}
		}, false, 1, "a signal ended the wait for it\n"},
		{"expression", func(fifo, _ string) []string { return []string{"-i", pair.RxName, "-F", fifo} }, false, 1, "a signal ended the wait for it\n"},
		{"filter of read", func(fifo, other string) []string { return []string{"read", "--filter-file", fifo, other} }, false, 1, "a signal ended the wait for it\n"},
		{"expect", func(fifo, other string) []string {
			return []string{"replay", "--program", "none", "--expect", fifo, other}
		}, false, 1, "a signal ended the wait for it\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := spared(func() *systest.Process {
				fifo, other := mustFifo(t, "fifo"), systest.TempFile(t)
				p := systest.Start(t, pair.Rx, nil, test.args(fifo, other)...)
				testnet.WaitFor(t, "the command to come to the FIFO", func() bool { return holds(p, other) || !test.opens && holds(p, fifo) })
				p.Cmd.Process.Signal(os.Interrupt)
				return p
			})
			if status, stderr := p.Wait(); status != test.status || !strings.Contains(stderr, test.said) {
				t.Errorf("exit status %d: %s", status, stderr)
			}
		})
	}
	begun := time.Now()
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", mustFifo(t, "fifo"), "--duration", "300ms").Wait()
	if took := time.Since(begun); status != 1 || !strings.Contains(stderr, "nobody reads from it") || took < 300*time.Millisecond {
		t.Errorf("after %v exit status %d: %s", took, status, stderr)
	}

	// When the other end is opened, all go on.
	fifo := mustFifo(t, "fifo.pcapng")
	p := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", fifo, "--json")
	reader := systest.Start(t, pair.Rx, nil, "read", "-q", fifo)
	p.Listening()
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if s := systest.Account(t, p.Interrupt()); s.Captured != 1 {
		t.Errorf("summary %+v", s)
	}
	if status, stderr := reader.Wait(); status != 0 {
		t.Errorf("the reader: exit status %d: %s", status, stderr)
	}
}

// A copy that a signal ends before any input is a whole file without packets, like a capture.
func TestReadEndedBeforeInput(t *testing.T) {
	t.Parallel()
	ns := testnet.MustPair(t, testnet.PairOptions{}).Rx
	for _, name := range []string{"out.pcapng", "out.pcap", "out.json", "out.pcapng.gz", "out.pcap.zst"} {
		fifo, out := mustFifo(t, "fifo"), filepath.Join(t.TempDir(), name)
		p := systest.Start(t, ns, nil, "read", "-w", out, fifo)
		// The file is created before the process becomes another user, which reads no input yet.
		testnet.WaitFor(t, "read to wait for input", func() bool { return holds(p, out) && holds(p, fifo) })
		p.Interrupt()
		if strings.HasSuffix(name, ".json") {
			if info, err := os.Stat(out); err != nil || info.Size() != 0 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
			continue
		}
		if text, err := systest.Command("read", out).CombinedOutput(); err != nil || len(text) > 0 {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}

// The end of a capture reports how many commands still run and how many were never started, and a
// second signal does not prevent the account.
func TestCommandHangs(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	script := filepath.Join(t.TempDir(), "hangs")
	testnet.Must(t, os.WriteFile(script, []byte("#!/bin/sh\nexec sleep 30 >/dev/null 2>&1 3>&-\n"), 0o700))
	var arrived uint64
	p := spared(func() *systest.Process {
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", systest.TempFile(t), "-C", "100k", "-z", script, "--json")
		_, arrived = testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 1000})
		p.Cmd.Process.Signal(os.Interrupt)
		testnet.WaitFor(t, "the waiting", func() bool { return strings.Contains(p.Stderr(), "to end, for a minute at most") })
		testnet.WaitFor(t, "the end", func() bool { // the end of the second in which a signal counts as the first
			p.Cmd.Process.Signal(os.Interrupt)
			select {
			case <-p.Done:
				return true
			case <-time.After(100 * time.Millisecond):
				return false
			}
		})
		return p
	})
	_, stderr := p.Wait()
	s := systest.Account(t, stderr)
	if s.Captured != arrived || !strings.Contains(stderr, " have not ended, and go on by themselves; for ") || !strings.Contains(strings.Join(s.Notices, "\n"), "files none was started") {
		t.Errorf("%s", stderr)
	}
}

// If the names of files are not read, or cannot be written, notices report it, and the capture does
// not wait.
func TestPrintFilesUnread(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testnet.Must(t, err)
	defer full.Close()
	paused, w, err := os.Pipe()
	testnet.Must(t, err)
	defer paused.Close()
	defer w.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		out  *os.File
		said string
	}{
		{"full", full, "--print-files: failed for "},
		{"paused", w, "--print-files: nobody has read "},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := systest.Listening(t, pair.Rx, test.out, "-i", pair.RxName, "-w", systest.TempFile(t), "-C", "100k", "--print-files", "--json")
			_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 1000})
			stderr := p.Interrupt()
			if s := systest.Account(t, stderr); s.Captured != arrived || !strings.Contains(stderr, test.said) || strings.Contains(stderr, "-z ") {
				t.Errorf("%s", stderr)
			}
		})
	}
}
