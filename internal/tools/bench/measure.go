package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An effort says how much is measured.
type effort struct {
	// How often everything is measured in turn: rounds at the shortest and the longest usual
	// frames, fewRounds elsewhere. Each round has bursts of traffic, each next to a burst to
	// compare with.
	rounds, fewRounds, bursts int

	// How many times the search for the highest rate without loss halves its interval: with many
	// rounds, and with few.
	halvings, fewHalvings int

	// How often an XDP program is run by BPF_PROG_RUN, and in how many rounds.
	costRuns, costRounds int
}

var (
	fullEffort  = effort{rounds: 6, fewRounds: 3, bursts: 4, halvings: 6, fewHalvings: 4, costRuns: 15, costRounds: 3}
	quickEffort = effort{rounds: 1, fewRounds: 1, bursts: 2, halvings: 2, fewHalvings: 2, costRuns: 5, costRounds: 1}
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
)

// Lengths of frames as programs see them, without the checksum: of 64 bytes, the shortest, of 300
// and 512 bytes, and of 1518 bytes, the longest for an MTU of 1500.
const (
	smallSize  = 296
	middleSize = 508
	longSize   = 1514
)

// wireSize returns a frame's size on the wire, with its checksum.
func wireSize(size int) int { return size + 4 }

// An entrant is measured in the rounds of a sheet: a tool, or the traffic without one.
type entrant struct {
	row Row
	try func(ctx context.Context, w load) (trial, error)

	beside         *lane     // which bursts its own are compared with
	rates, besides []float64 // of its bursts, and of those before them
	parts          []float64 // of the packets that were captured in a round
	cpu            []float64 // us per captured packet, of the rounds without loss

	of     *program // nil: not of xdpcap
	tool   *tool    // nil: without one
	isFile bool     // the tool writes to a file: time for what is captured counts with loss, too
}

func (n *network) passEntrant() *entrant {
	return &entrant{
		row:    Row{Name: passName, Verdict: xdp.Pass.String()},
		beside: n.drop,
		try:    func(ctx context.Context, w load) (trial, error) { return w.run(ctx, n.pass) },
	}
}

func (n *network) copyEntrant(name string, verdict xdp.Verdict) *entrant {
	return &entrant{
		row:    Row{Name: name, Verdict: verdict.String()},
		beside: n.bare(verdict),
		try:    func(ctx context.Context, w load) (trial, error) { return n.copying(ctx, verdict, w) },
	}
}

func (n *network) toolEntrant(t *tool) *entrant {
	e := &entrant{
		tool:   t,
		row:    Row{Name: t.name, Verdict: t.verdict.String(), Command: t.commandLine(), Missing: t.missing},
		beside: n.bare(t.verdict),
	}
	e.try = func(ctx context.Context, w load) (tr trial, err error) {
		for range trials {
			tr, err = n.withTool(ctx, e.tool, w)
			if err != nil || tr.lossless() || float64(tr.sent-tr.captured) > smallLoss*float64(tr.sent) {
				break
			}
		}
		return tr, err
	}
	return e
}

// entrants returns a tool of each xdpcap in turn, followed by the other tools.
func (b *bench) entrants(n *network, own func(*program) []tool, other []tool) (all []*entrant) {
	for i := range own(b.programs[0]) {
		for _, p := range b.programs {
			e := n.toolEntrant(&own(p)[i])
			e.of = p
			all = append(all, e)
		}
	}
	for i := range other {
		all = append(all, n.toolEntrant(&other[i]))
	}
	return all
}

// measureSheet measures all tools at one frame size. Figures that are missing when ctx ends say so.
func (b *bench) measureSheet(ctx context.Context, n *network, other []tool, size, rounds int) {
	entrants := append([]*entrant{
		n.passEntrant(), n.copyEntrant(copyDropName, xdp.Drop), n.copyEntrant(copyPassName, xdp.Pass),
	}, b.entrants(n, (*program).tools, other)...)
	for round := range rounds {
		for _, e := range entrants {
			progress("%d bytes, round %d of %d: %s", wireSize(size), round+1, rounds, e.row.Name)
			e.round(ctx, load{size: size, bursts: b.bursts, time: burstTime, beside: e.beside})
		}
	}
	var drop []float64
	for _, e := range entrants {
		if e.beside == n.drop {
			drop = append(drop, e.besides...)
		}
	}
	limit := median(drop)
	rows := []*entrant{{row: Row{
		Name: dropName, Verdict: xdp.Drop.String(), Unpaced: limit, Rate: limit,
		OfDrop: 1, Keeps: 1, KeepsLow: 1, KeepsHigh: 1,
	}}}
	for _, e := range entrants {
		e.finish(n, limit)
		if e.row.Missing == "" && len(e.parts) > 0 && e.row.Captured < 1 {
			b.search(ctx, n, e, size)
		}
		if e.row.Name == passName {
			e.row.Keeps, e.row.KeepsLow, e.row.KeepsHigh = 1, 1, 1
		}
		rows = append(rows, e)
	}
	b.each(nil, func(r *Report) { r.Frames = append(r.Frames, Sheet{Bytes: wireSize(size)}) })
	b.addRows(rows, func(r *Report) *Sheet { return &r.Frames[len(r.Frames)-1] })
}

// addRows adds the rows of entrants to a sheet in each report.
func (b *bench) addRows(entrants []*entrant, to func(*Report) *Sheet) {
	for _, e := range entrants {
		b.each(e.of, func(r *Report) { to(r).Rows = append(to(r).Rows, e.row) })
	}
}

// round measures unpaced traffic.
func (e *entrant) round(ctx context.Context, w load) {
	if e.row.Missing != "" {
		return
	}
	t, err := e.try(ctx, w)
	if err != nil {
		e.row.Missing = missing(ctx, err)
		return
	}
	e.rates, e.besides = append(e.rates, t.rates...), append(e.besides, t.beside...)
	if t.captured > 0 && (t.lossless() || e.isFile) {
		e.cpu = append(e.cpu, t.cpuPerPacket())
	}
	if e.row.Command != "" {
		e.parts = append(e.parts, t.part())
	}
}

// finish sums up the rounds. If most rounds had no loss, their rate is the highest without loss.
// drop is the rate of XDP_DROP in the rounds.
func (e *entrant) finish(n *network, drop float64) {
	r := &e.row
	if len(e.rates) == 0 {
		return
	}
	kept := ratios(e.rates, e.besides)
	r.Unpaced, r.Captured, r.Rounds = median(e.rates), median(e.parts), len(e.parts)
	for _, part := range e.parts {
		if part == 1 {
			r.Lossless++
		}
	}
	r.Keeps, r.KeepsLow, r.KeepsHigh = median(kept), quantile(kept, 0.25), quantile(kept, 0.75)
	isLossless := r.Missing == "" && (len(e.parts) == 0 || r.Captured == 1)
	if isLossless || e.isFile {
		r.ReaderUs = median(e.cpu)
	}
	if !isLossless {
		return
	}
	r.Rate = r.Unpaced
	r.OfDrop = r.Rate / drop
	if e.beside == n.drop {
		r.OfDrop = r.Keeps
	}
}

// search finds the highest rate without loss beside bursts under XDP_DROP.
func (b *bench) search(ctx context.Context, n *network, e *entrant, size int) {
	var drop []float64
	r := &e.row
	halvings := b.halvings
	if len(e.parts) <= b.fewRounds {
		halvings = b.fewHalvings
	}
	rate, err := highestRate(r.Unpaced, halvings, func(rate float64) (float64, bool, error) {
		progress("%d bytes, %s: %s", wireSize(size), r.Name, mpps(rate))
		beside, err := load{size: size, bursts: 1, time: burstTime}.run(ctx, n.drop)
		if err != nil {
			return 0, false, err
		}
		drop = append(drop, beside.rates...)
		t, err := e.try(ctx, load{size: size, rate: rate, bursts: 1, time: longTime})
		if err == nil && t.lossless() {
			r.ReaderUs = t.cpuPerPacket() // the last one is at the highest rate
		}
		return median(t.rates), t.lossless(), err
	})
	if err != nil {
		r.ReaderUs, r.Missing = 0, missing(ctx, err)
		return
	}
	r.Rate, r.OfDrop = rate, rate/median(drop)
}

// missing returns why there is no figure.
func missing(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "no time was left"
	}
	return oneLine(err.Error())
}

// median returns the median, 0 if there are no values.
func median(xs []float64) float64 { return quantile(xs, 0.5) }

// quantile returns the value below which the given part of the values is; 0 if there are none.
func quantile(xs []float64, part float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[int(part*float64(len(sorted)-1)+0.5)]
}

// ratios returns xs[i] / ys[i].
func ratios(xs, ys []float64) (all []float64) {
	for i := range min(len(xs), len(ys)) {
		all = append(all, xs[i]/ys[i])
	}
	return all
}

// measureFrames measures a sheet for each frame size, the most important ones first.
func (b *bench) measureFrames(ctx context.Context) error {
	for _, f := range []struct {
		size, rounds int
		jumbo        bool
	}{
		{testnet.MinFrame, b.rounds, false},
		{longSize, b.rounds, false},
		{smallSize, b.fewRounds, false},
		{middleSize, b.fewRounds, false},
		{jumboSize, b.fewRounds, true},
	} {
		n, err := newNetwork(networkOptions{jumbo: f.jumbo, cpus: 1})
		if err != nil {
			return fmt.Errorf("network for frames of %d bytes: %w", wireSize(f.size), err)
		}
		other := others()
		if f.size == smallSize {
			other = named(other, tcpdumpName, dumpcapName) // the most usual ones; it takes time
		}
		b.measureSheet(ctx, n, other, f.size, f.rounds)
		if err := n.close(); err != nil {
			return err
		}
	}
	b.each(nil, func(r *Report) {
		slices.SortFunc(r.Frames, func(a, b Sheet) int { return a.Bytes - b.Bytes })
	})
	return nil
}
