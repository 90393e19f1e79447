package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	// stallAfter is how long traffic runs before its output stalls, stallTime how long the output
	// accepts nothing, and stallTraffic how long the traffic runs in all.
	stallAfter   = 700 * time.Millisecond
	stallTime    = time.Second
	stallTraffic = 2500 * time.Millisecond

	// reachedPart is the part of the rate that must be reached; otherwise the traffic proves
	// nothing.
	reachedPart = 0.95
)

// stalls are the rates at which nothing may be lost.
var stalls = []struct {
	size int
	rate float64
}{{testnet.MinFrame, 1_500_000}, {longSize, 300_000}}

// measureStalls measures the loss while the output stalls.
func (b *bench) measureStalls(ctx context.Context) (err error) {
	n, err := newNetwork(networkOptions{cpus: 1})
	if err != nil {
		return fmt.Errorf("network for stalls: %w", err)
	}
	defer func() { err = errors.Join(err, n.close()) }()
	for _, s := range stalls {
		for _, p := range b.programs {
			t := p.tool("stall", ring, xdp.Drop, "-i", rxName)
			result := Stall{
				Bytes: wireSize(s.size), Rate: s.rate, Seconds: stallTime.Seconds(), Command: t.to("-").commandLine(), Missing: t.missing,
			}
			for round := range b.fewRounds {
				if result.Missing != "" {
					break
				}
				progress("stall at %d bytes, round %d of %d", result.Bytes, round+1, b.fewRounds)
				if err := result.round(ctx, n, t.to("-"), s.size); err != nil {
					result.Missing = missing(ctx, err)
				}
			}
			p.report.Stalls = append(p.report.Stalls, result)
		}
	}
	return nil
}

// round sends once.
func (s *Stall) round(ctx context.Context, n *network, t *tool, size int) (err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	t.stdout = to
	p, err := startProcess(ctx, n.pair.Rx, t, n.toolCPUs())
	to.Close()
	if err != nil {
		return err
	}
	read := make(chan error, 1)
	began := time.Now()
	go func() { read <- machine.Quiet(1, func() error { return readAndStall(from, began) }) }()
	sent, rate, sendErr := n.send(ctx, size, s.Rate, stallTraffic)
	captured, endErr := p.end()
	if err := errors.Join(sendErr, endErr, <-read); err != nil {
		return err
	}
	if rate < reachedPart*s.Rate {
		return fmt.Errorf("only %.0f packets per second were sent", rate)
	}
	if captured > sent {
		return fmt.Errorf("captured %d packets, but %d were sent", captured, sent)
	}
	s.Sent += sent
	s.Lost += sent - captured
	if s.Reached == 0 || rate < s.Reached {
		s.Reached = rate
	}
	return nil
}

// readAndStall reads a pipe to its end, and stops once in between. It does not copy the bytes, so
// that the tool next to it has the CPU, as with a disk.
func readAndStall(from *os.File, began time.Time) error {
	to, err := os.OpenFile(nowhere, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	// More than the default of 64 KiB, so that the pipe is not what is measured. After an error the
	// pipe keeps its size.
	unix.FcntlInt(from.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	for stalled := false; ; {
		if !stalled && time.Since(began) > stallAfter {
			stalled = true
			time.Sleep(stallTime)
		}
		n, err := unix.Splice(int(from.Fd()), nil, int(to.Fd()), nil, 1<<20, 0)
		if n == 0 && err == nil {
			return nil // all of it
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("take what it writes: %w", err)
		}
	}
}
