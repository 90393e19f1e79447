package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The duration of a burst of traffic, and of traffic at a rate that may be the highest without
// loss.
const (
	burstTime = 120 * time.Millisecond
	longTime  = 500 * time.Millisecond
)

const (
	// smallLoss is the part of the packets that may be lost by accident, for example by a reader
	// that did not get its CPU for 20 ms. After such a loss a rate is tried again, up to trials
	// times in all.
	smallLoss = 0.03
	trials    = 2

	// fewCaptured is the part of the packets below which a reader's time tells nothing about a
	// packet: it is the time that the reader needs without packets.
	fewCaptured = 0.05
)

// A load is the traffic of a trial.
type load struct {
	size   int
	rate   float64 // packets per second; 0: as many as it can
	bursts int
	time   time.Duration // of each burst

	beside *lane // sends a burst of unpaced traffic before each; nil: none
}

// A trial is the result of a load.
type trial struct {
	rates, keeps         []float64 // of the bursts: packets per second, and their part of the burst beside
	sent, captured, lost uint64
	counted              bool          // whether captured and lost are known
	cpu                  time.Duration // of the tool
}

// run sends the traffic on a lane.
func (w load) run(ctx context.Context, on *lane) (t trial, err error) {
	for range w.bursts {
		beside := 0.0
		if w.beside != nil {
			if _, beside, err = w.beside.send(ctx, w.size, 0, w.time); err != nil {
				return t, err
			}
		}
		sent, rate, err := on.send(ctx, w.size, w.rate, w.time)
		if err != nil {
			return t, err
		}
		if w.beside == nil {
			beside = rate
		}
		t.sent, t.rates, t.keeps = t.sent+sent, append(t.rates, rate), append(t.keeps, rate/beside)
	}
	return t, nil
}

// cpuPerPacket returns the tool's CPU time per captured packet in ns, NaN if it captured few.
func (t trial) cpuPerPacket() float64 {
	if t.cpu == 0 || float64(t.captured) < fewCaptured*float64(t.sent) {
		return math.NaN()
	}
	return float64(t.cpu) / float64(t.captured)
}

// line returns the trial as a measurement.
func (t trial) line() *benchfmt.Result {
	values := []benchfmt.Value{of(median(t.rates), pps), of(median(t.keeps), keeps), of(t.cpuPerPacket(), nsPacket)}
	if t.counted {
		part := 1.0 // of no packets all
		if wanted := t.captured + t.lost; wanted > 0 {
			part = float64(t.captured) / float64(wanted)
		}
		values = append(values, of(part, captured), of(float64(t.lost), lost))
	}
	return measured(int(t.sent), values...)
}

// withTool runs a tool and sends traffic past it. The tool stays on CPUs that do not send, if there
// are any. Its CPU time is from before the first packet until the last one was read, without
// starting and stopping it.
func (n *network) withTool(ctx context.Context, tool tool, w load) (t trial, err error) {
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	if tool.onStack {
		if _, err := opened.attach(n.pair, tool.verdict); err != nil {
			return t, err
		}
	}
	p, err := startProcess(ctx, n.pair.Rx, tool, n.toolCPUs())
	if err != nil {
		return t, err
	}
	before, cpuErr := p.cpu()
	t, err = w.run(ctx, n.lane)
	time.Sleep(tool.handOver)
	after, afterErr := p.cpu()
	captured, endErr := p.end()
	if err := errors.Join(cpuErr, err, afterErr, endErr); err != nil {
		return t, err
	}
	if captured > t.sent {
		return t, fmt.Errorf("captured %d packets, but %d were sent", captured, t.sent)
	}
	t.counted, t.captured, t.lost, t.cpu = true, captured, t.sent-captured, after-before
	if tool.selects {
		c, ok := parseCounts(p.said.text())
		if !ok {
			return t, errors.New("no counts at its end")
		}
		t.lost = c.lost
	}
	return t, nil
}

// copying measures the least that any capture at XDP does: an XDP program copies each packet's
// bytes into memory, and a thread on the other CPU reads them there once a millisecond. It has no
// clock and no records, and does not check whether the reader keeps up. The trial's CPU time is the
// thread's.
func (n *network) copying(ctx context.Context, verdict xdp.Verdict, w load) (t trial, err error) {
	r, err := testnet.AttachReceiver(n.pair.Rx, rxName, verdict, testnet.ReceiverOptions{Copy: true})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	copies, err := r.Copies()
	if err != nil {
		return t, err
	}
	var stop atomic.Bool
	var readErr error
	var reader sync.WaitGroup
	var cpu time.Duration
	reader.Go(func() {
		readErr = machine.Quiet(1, func() (err error) {
			buffer := make([]byte, 256<<10)
			for !stop.Load() {
				n, err := copies.Take(buffer)
				if err != nil {
					return err
				}
				if n == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			cpu, err = machine.ThreadTime()
			return err
		})
	})
	t, err = w.run(ctx, n.lane)
	stop.Store(true)
	reader.Wait()
	t.captured, t.cpu = t.sent, cpu
	return t, errors.Join(err, readErr)
}

// An entrant is measured in traffic: a tool, or the traffic without one.
type entrant struct {
	name    string
	command string
	of      *program // nil: not of xdpcap
	verdict xdp.Verdict
	beside  *lane // which bursts its own are compared with; nil: none
	try     func(ctx context.Context, w load) (trial, error)
}

// alone returns the traffic without a tool, and beside a thread that only copies.
func (n *network) alone() []entrant {
	bare := func(name string, verdict xdp.Verdict) entrant {
		return entrant{name: name, verdict: verdict,
			try: func(ctx context.Context, w load) (trial, error) { return w.run(ctx, n.bare(verdict)) }}
	}
	copying := func(name string, verdict xdp.Verdict) entrant {
		return entrant{name: name, verdict: verdict, beside: n.bare(verdict),
			try: func(ctx context.Context, w load) (trial, error) { return n.copying(ctx, verdict, w) }}
	}
	return []entrant{bare(dropName, xdp.Drop), bare(passName, xdp.Pass), copying(copyDropName, xdp.Drop), copying(copyPassName, xdp.Pass)}
}

func (n *network) entrant(p *program, t tool) entrant {
	try := func(ctx context.Context, w load) (tr trial, err error) {
		for range trials {
			tr, err = n.withTool(ctx, t, w)
			if err != nil || tr.lost == 0 || float64(tr.lost) > smallLoss*float64(tr.sent) {
				break
			}
		}
		return tr, err
	}
	return entrant{name: t.name, command: t.commandLine(), of: p, verdict: t.verdict, beside: n.bare(t.verdict), try: try}
}

// entrants returns a tool of each xdpcap in turn, followed by the other tools. They write to a
// file, or nowhere.
func (b *bench) entrants(n *network, to string, own func(*program) []tool, other []tool) (all []entrant) {
	for i := range own(b.programs[0]) {
		for _, p := range b.programs {
			all = append(all, n.entrant(p, own(p)[i].to(to)))
		}
	}
	for _, t := range other {
		all = append(all, n.entrant(nil, t.to(to)))
	}
	return all
}
