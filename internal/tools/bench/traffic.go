package main

import (
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

	// fewCaptured is the part of the packets below which no time per packet is computed: the
	// reader's time is then mostly the time that it needs without packets.
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
	isCounted            bool          // whether captured and lost are known
	cpu                  time.Duration // of the tool
}

// run sends the traffic on a lane.
func (w load) run(t testnet.TB, on *lane) (r trial) {
	for range w.bursts {
		beside := 0.0
		if w.beside != nil {
			_, beside = w.beside.send(t, w.size, 0, w.time)
		}
		sent, rate := on.send(t, w.size, w.rate, w.time)
		if w.beside == nil {
			beside = rate
		}
		r.sent, r.rates, r.keeps = r.sent+sent, append(r.rates, rate), append(r.keeps, rate/beside)
	}
	return r
}

// cpuPerPacket returns the tool's CPU time per captured packet in ns, NaN if it captured few.
func (r trial) cpuPerPacket() float64 {
	if r.cpu == 0 || float64(r.captured) < fewCaptured*float64(r.sent) {
		return math.NaN()
	}
	return float64(r.cpu) / float64(r.captured)
}

// line returns the trial as a measurement.
func (r trial) line() *benchfmt.Result {
	values := []benchfmt.Value{of(median(r.rates), unitPPS), of(median(r.keeps), unitKeeps), of(r.cpuPerPacket(), unitNsPacket)}
	if r.isCounted {
		part := 1.0 // of no packets all
		if wanted := r.captured + r.lost; wanted > 0 {
			part = float64(r.captured) / float64(wanted)
		}
		values = append(values, of(part, unitCaptured), of(float64(r.lost), unitLost))
	}
	return measured(int(r.sent), values...)
}

// besideTool runs a tool and sends traffic past it. The tool stays on CPUs that do not send, if
// there are any. Its CPU time is from before the first packet until the last one was read, without
// starting and stopping it.
func (n *network) besideTool(t testnet.TB, tool tool, w load) (r trial) {
	testnet.Within(t, func(t testnet.TB) {
		if tool.onStack {
			testnet.MustReceiver(t, n.pair, tool.verdict, testnet.ReceiverOptions{})
		}
		p := startProcess(t, n.pair.Rx, tool, n.toolCPUs())
		before := p.cpu()
		r = w.run(t, n.lane)
		time.Sleep(tool.handOver)
		r.cpu = p.cpu() - before
		r.captured = p.end()
		if r.captured > r.sent {
			t.Fatalf("captured %d packets, but %d were sent", r.captured, r.sent)
		}
		r.isCounted, r.lost = true, r.sent-r.captured
		if tool.selects {
			c, ok := parseCounts(p.Output())
			if !ok {
				t.Fatalf("no counts at its end")
			}
			r.lost = c.lost
		}
	})
	return r
}

// besideCopying measures the least that any capture at XDP does: an XDP program copies each
// packet's bytes into memory, and a thread on the other CPU reads them there once a millisecond. It
// has no clock and no records, and does not check whether the reader keeps up. The trial's CPU time
// is the thread's.
func (n *network) besideCopying(t testnet.TB, verdict xdp.Verdict, w load) (r trial) {
	testnet.Within(t, func(t testnet.TB) {
		copies, err := testnet.MustReceiver(t, n.pair, verdict, testnet.ReceiverOptions{Copy: true}).Copies()
		testnet.Must(t, err)
		var isOver atomic.Bool
		var readErr error
		var reader sync.WaitGroup
		var cpu time.Duration
		reader.Go(func() {
			readErr = machine.Quiet(1, func() (err error) {
				buffer := make([]byte, 256<<10)
				for !isOver.Load() {
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
		func() {
			defer reader.Wait()
			defer isOver.Store(true)
			r = w.run(t, n.lane)
		}()
		testnet.Must(t, readErr)
		r.captured, r.cpu = r.sent, cpu
	})
	return r
}

// An entrant is measured in traffic: a tool, or the traffic without one.
type entrant struct {
	name    string
	command string
	of      *program // nil: not of xdpcap
	verdict xdp.Verdict
	beside  *lane // which bursts its own are compared with; nil: none
	try     func(t testnet.TB, w load) trial
}

// alone returns the traffic without a tool, and beside a thread that only copies.
func (n *network) alone() []entrant {
	bare := func(name string, verdict xdp.Verdict) entrant {
		return entrant{name: name, verdict: verdict, try: func(t testnet.TB, w load) trial { return w.run(t, n.bare(verdict)) }}
	}
	copying := func(name string, verdict xdp.Verdict) entrant {
		return entrant{name: name, verdict: verdict, beside: n.bare(verdict),
			try: func(t testnet.TB, w load) trial { return n.besideCopying(t, verdict, w) }}
	}
	return []entrant{bare(dropName, xdp.Drop), bare(passName, xdp.Pass), copying(copyDropName, xdp.Drop), copying(copyPassName, xdp.Pass)}
}

func (n *network) entrant(p *program, tool tool) entrant {
	try := func(t testnet.TB, w load) (r trial) {
		for range trials {
			r = n.besideTool(t, tool, w)
			if r.lost == 0 || float64(r.lost) > smallLoss*float64(r.sent) {
				break
			}
		}
		return r
	}
	return entrant{name: tool.name, command: tool.commandLine(), of: p, verdict: tool.verdict, beside: n.bare(tool.verdict), try: try}
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
