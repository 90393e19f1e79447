package files_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// unread runs a capture whose file is a pipe that is not read; it returns the pipe. The capture
// blocks in a write, with packets in its queue.
func unread(t *testing.T, pair *testnet.Pair) (*systest.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	t.Cleanup(func() { r.Close() })
	p := systest.Listening(t, pair.Rx, w, "-i", pair.RxName, "-w", "-")
	w.Close()
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1500, 0), Count: 1000, Rate: 20_000})
	return p, r
}

// signalDetached sends a signal to end, and waits until the capture has begun to end.
func signalDetached(t *testing.T, pair *testnet.Pair, p *systest.Process, sig syscall.Signal) {
	t.Helper()
	p.Cmd.Process.Signal(sig)
	testnet.WaitFor(t, "the capture to detach", func() bool { return systest.Attached(t, pair) == "" })
}

// spared returns a process that has received signals and has ended, but was not killed by them. A
// signal rightly kills a process that gets no CPU for a second after it, so spared tries three
// times.
func spared(try func() *systest.Process) (p *systest.Process) {
	for range 3 {
		p = try()
		p.Wait()
		if !p.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			break
		}
	}
	return p
}

// Several signals do not shorten an ending that goes on writing: timeout(1) sends two, and so does
// a terminal that is closed.
func TestSignalsSpareWriting(t *testing.T) {
	t.Parallel()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // as in TestEnds
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			var file bytes.Buffer
			p := spared(func() *systest.Process {
				p, r := unread(t, pair)
				signalDetached(t, pair, p, sig)
				file.Reset()
				for {
					p.Cmd.Process.Signal(sig)
					if _, err := io.CopyN(&file, r, 64<<10); err != nil {
						return p
					}
					time.Sleep(50 * time.Millisecond) // a slow reader
				}
			})
			status, stderr := p.Wait()
			want := "xdpcap: 1000 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 1000 captured\n"
			if status != 0 || !strings.HasSuffix(stderr, want) {
				t.Errorf("exit status %d: %s", status, stderr)
			}
			path := systest.TempFile(t)
			testnet.Must(t, os.WriteFile(path, file.Bytes(), 0o600))
			if records, r := systest.ReadFile(t, path); len(records) != 1000 || systest.Statistics(t, r).PacketsReceived != 1000 {
				t.Errorf("%d packets in the file, statistics %+v", len(records), systest.Statistics(t, r))
			}
		})
	}
}

// Repeated signals end a capture that hangs.
func TestSignalsEndHanging(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sent, died syscall.Signal }{
		{syscall.SIGINT, syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGQUIT, syscall.SIGTERM},
	} {
		t.Run(test.sent.String(), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			p, _ := unread(t, pair)
			signalDetached(t, pair, p, test.sent)
			// The kernel merges signals that arrive before the process runs, so more than the two
			// that are still needed are sent.
			testnet.WaitFor(t, "the process to die", func() bool {
				p.Cmd.Process.Signal(test.sent)
				select {
				case <-p.Done:
					return true
				default:
					return false
				}
			})
			_, stderr := p.Wait()
			if s := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != test.died {
				t.Errorf("%v: %s", p.Cmd.ProcessState, stderr)
			}
			if n := strings.Count(stderr, "\n"); n != 2 { // what XDP costs a veth, and where it listens
				t.Errorf("%d lines: %s", n, stderr)
			}
		})
	}
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

// A signal while a capture begins ends it like a later one. If it waits for the end of its filter
// file, the signal ends that wait.
func TestSignalAtStart(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	filter := filepath.Join(t.TempDir(), "filter")
	testnet.Must(t, syscall.Mkfifo(filter, 0o600))
	for _, begins := range []bool{true, false} {
		file := systest.TempFile(t)
		p := spared(func() *systest.Process {
			p := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-F", filter, "-w", file, "--json")
			w, err := os.OpenFile(filter, os.O_WRONLY, 0) // returns when xdpcap reads
			testnet.Must(t, err)
			defer w.Close()
			if begins {
				w.Close()
				testnet.WaitFor(t, "the filter to be read", func() bool { return !holds(p, filter) })
			}
			p.Cmd.Process.Signal(syscall.SIGTERM)
			p.Wait()
			return p
		})
		status, stderr := p.Wait()
		if !begins {
			if status != 1 || !strings.Contains(stderr, "a signal ended the wait for it") || systest.FileSize(file) > 0 {
				t.Errorf("%v, and a file of %d bytes: %s", p.Cmd.ProcessState, systest.FileSize(file), stderr)
			}
			continue
		}
		if s := systest.Account(t, stderr); status != 0 || s.Captured != 0 {
			t.Errorf("%v, summary %+v: %s", p.Cmd.ProcessState, s, stderr)
		}
		if _, r := systest.ReadFile(t, file); systest.Statistics(t, r).PacketsReceived != 0 {
			t.Errorf("statistics %+v", systest.Statistics(t, r))
		}
		systest.CheckDetached(t, pair)
	}
}

// Every command ends by itself after a burst of signals, and prints its counts.
func TestSignalBurst(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-i rx0":                        "0 seen = ",
		"stats -i rx0":                  "total",
		"count -i rx0":                  "total",
		"monitor":                       "total",
		"drops -i rx0":                  "total",
		"latency --kernel-stats -i rx0": "total",
		"monitor --record 10":           "",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			if strings.HasPrefix(args, "latency") {
				testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{})
			}
			p, output := systest.Counting(t, pair, strings.Fields(args)...)
			for range 2 {
				p.Cmd.Process.Signal(syscall.SIGTERM)
				time.Sleep(2 * time.Millisecond) // a burst of signals that the kernel does not merge into one
			}
			if status, stderr := p.Wait(); status != 0 || !strings.Contains(output()+stderr, want) {
				t.Errorf("%v: %s%s", p.Cmd.ProcessState, output(), stderr)
			}
		})
	}
}
