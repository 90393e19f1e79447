package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	// stallAfter is how long traffic runs before its output stalls, stallTime how long the stall
	// lasts, and stallTraffic how long the traffic runs in all.
	stallAfter   = 700 * time.Millisecond
	stallTime    = time.Second
	stallTraffic = 2500 * time.Millisecond

	// reachedPart is the part of the rate that must be reached for the result to count.
	reachedPart = 0.95
)

// stalls are the rates at which no packet may be lost, in packets per second.
var stalls = []struct {
	size int
	rate float64
}{{shortSize, 1_500_000}, {longSize, 300_000}}

func stallName(size int) string { return named("Stall", bytesOf(size)) }

// measureStalls measures the loss of traffic into a pipe whose reader stops for a while.
func (b *bench) measureStalls(t testnet.TB) {
	n := newNetwork(t, networkOptions{})
	var rows []*row
	for _, s := range stalls {
		for _, p := range b.programs {
			tool := p.tool("stall", ring, xdp.Drop, "-i", rxName).to("-")
			rows = append(rows, &row{name: stallName(s.size), command: tool.commandLine(), of: p,
				measure: func(t testnet.TB) *benchfmt.Result { return n.stall(t, tool, s.size, s.rate) }})
		}
	}
	b.measure(t.Context(), b.fewRounds, rows)
}

// stall sends traffic once through a tool whose output stalls.
func (n *network) stall(t testnet.TB, tool tool, size int, wanted float64) *benchfmt.Result {
	from, to, err := os.Pipe()
	testnet.Must(t, err)
	defer from.Close()
	tool.stdout = to
	p := func() *process {
		defer to.Close()
		return startProcess(t, n.pair.Rx, tool, n.toolCPUs())
	}()
	read := make(chan error, 1)
	began := time.Now()
	go func() { read <- machine.Quiet(1, func() error { return readAndStall(from, began) }) }()
	sent, rate := n.send(t, size, wanted, stallTraffic)
	captured := p.end()
	testnet.Must(t, <-read)
	if rate < reachedPart*wanted {
		t.Fatalf("only %.0f packets per second were sent", rate)
	}
	if captured > sent {
		t.Fatalf("captured %d packets, but %d were sent", captured, sent)
	}
	return measured(int(sent), of(rate, unitPPS), of(float64(sent-captured), unitLost))
}

// readAndStall reads a pipe to its end, and stops once in between. It does not copy the bytes, so
// that the tool next to it has the CPU, as with a disk.
func readAndStall(from *os.File, began time.Time) error {
	to, err := os.OpenFile(nowhere, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	// More than the default of 64 KiB, because the size of the pipe is not to be measured. After an
	// error the pipe keeps its size.
	unix.FcntlInt(from.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	for stalled := false; ; {
		if !stalled && time.Since(began) > stallAfter {
			stalled = true
			time.Sleep(stallTime)
		}
		n, err := unix.Splice(int(from.Fd()), nil, int(to.Fd()), nil, 1<<20, 0)
		if n == 0 && err == nil {
			return nil // the end of the pipe
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("read its output: %w", err)
		}
	}
}
