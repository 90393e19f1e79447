package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A promise is a limit that the project promises to keep, and what was measured for it.
type promise struct {
	what     string
	format   string // of limit, measured and bound
	limit    float64
	atMost   bool // else at least
	measured float64
	unknown  bool // a figure is missing
	isNone   bool // 0 is a figure: there was no rate without loss

	// bound is the best that any capture can reach on this machine, as it was measured, and by says
	// how; "" if there is no such measurement.
	bound float64
	by    string
}

// promises returns the promises with what was measured for them.
func (r *Report) promises() []promise {
	short, long := wireSize(testnet.MinFrame), wireSize(longSize)
	sink, own := r.row(short, sinkName(ring)), r.row(short, ownName(ring))
	copyDrop, copyPass := r.row(short, copyDropName), r.row(short, copyPassName)
	longSink, longCopy := r.row(long, sinkName(ring)), r.row(long, copyDropName)
	kernel := r.cost(wholeName, ring, short)
	clock, copying, count := r.cost(clockName, "", short), r.cost(copyingName, "", short), r.cost(countName, "", short)

	var best float64 // of the other tools, without loss
	for _, name := range append([]string{sinkName(perf)}, others...) {
		best = max(best, r.row(long, name).Rate)
	}
	const copies, counts = "copying alone", "counting alone"
	all := []promise{
		{
			what: "ring: kernel cost per 64-byte packet", format: "%.0f ns", limit: 80, atMost: true,
			measured: value(kernel.KernelNs), unknown: kernel.KernelNs == nil,
			bound: value(clock.KernelNs) + value(copying.KernelNs), by: "clock and copying",
		},
		{
			what: "ring: that cost, of perf's", format: "%.0f %%", limit: 100.0 / 3, atMost: true,
			measured: 100 * ratio(value(kernel.KernelNs), value(r.cost(wholeName, perf, short).KernelNs)),
		},
		{
			what: "ring: --sink loses nothing at, of XDP_DROP", format: "%.0f %%", limit: 70,
			measured: 100 * sink.OfDrop, isNone: sink.alwaysLost(), bound: 100 * copyDrop.OfDrop, by: copies,
		},
		{
			what: "ring: --sink's rate without loss, of xdpdump's", format: "%.1f x", limit: 4,
			measured: ratio(sink.Rate, r.row(short, xdpdumpName).Rate), isNone: sink.alwaysLost(),
		},
		{
			what: "ring: traffic under XDP_PASS keeps", format: "%.0f %%", limit: 90,
			measured: 100 * own.Keeps, bound: 100 * copyPass.Keeps, by: copies,
		},
		{
			what: "ring: that traffic, of the one beside tcpdump", format: "%.2f x", limit: 1,
			measured: ratio(own.Keeps, r.row(short, tcpdumpName).Keeps),
		},
		{
			what: "ring: that traffic, of the one beside dumpcap", format: "%.2f x", limit: 1,
			measured: ratio(own.Keeps, r.row(short, dumpcapName).Keeps),
		},
		{
			what: "ring: reader CPU per 64-byte packet", format: "%.3f us", limit: 0.05, atMost: true,
			measured: sink.ReaderUs, bound: copyDrop.ReaderUs, by: "reading alone",
		},
		{
			what: "ring, 1518 bytes: --sink loses nothing at, of XDP_DROP", format: "%.0f %%", limit: 45,
			measured: 100 * longSink.OfDrop, isNone: longSink.alwaysLost(), bound: 100 * longCopy.OfDrop, by: copies,
		},
		{
			what: "ring, 1518 bytes: --sink's rate, of the best beside it", format: "%.2f x", limit: 1,
			measured: ratio(longSink.Rate, best), isNone: longSink.alwaysLost(),
		},
		{
			what: "ring: two CPUs, of twice one's, by BPF_PROG_RUN", format: "%.0f %%", limit: 80,
			measured: 100 * r.twoCPUs(ring).Scale,
		},
	}
	for _, c := range []struct {
		what, transport string
		limit           float64
	}{
		{sampleName, r.preferred(), 5},
		{noMatchName, r.preferred(), 8},
		{"stats", "", 15},
		{"count", "", 15},
	} {
		ns := r.cost(c.what, c.transport, short).KernelNs
		all = append(all, promise{
			what: c.what + ": added to XDP_DROP", format: "%.1f ns", limit: c.limit, atMost: true,
			measured: value(ns), unknown: ns == nil,
			bound: value(count.KernelNs), by: counts,
		})
	}
	for _, transport := range transports {
		ingress, egress := r.cost(wholeName, transport, short).KernelNs, r.cost(egressName, transport, short).KernelNs
		all = append(all, promise{
			what: transport + ": kernel cost at egress, of that at ingress", format: "%.2f x", limit: 1.1, atMost: true,
			measured: ratio(value(egress), value(ingress)),
		})
	}
	for i := range all {
		p := &all[i]
		p.unknown = p.unknown || p.measured == 0 && !p.isNone
		if p.bound == 0 {
			p.by = ""
		}
	}
	return all
}

// preferred is the transport that figures are for where both have the same.
func (r *Report) preferred() string {
	if slices.ContainsFunc(r.Costs, func(c Cost) bool { return c.Transport == ring && c.KernelNs != nil }) {
		return ring
	}
	return perf
}

// value returns a figure, 0 if it is missing.
func value(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// keeps says whether a value keeps the limit, before rounding.
func (p promise) keeps(value float64) bool {
	if p.atMost {
		return value <= p.limit
	}
	return value >= p.limit
}

// verdict says whether the promise is kept. It is "bound" where it is not, and the machine's own
// bound does not keep the limit, either.
func (p promise) verdict() string {
	switch {
	case p.unknown:
		return noFigure
	case p.keeps(p.measured):
		return "ok"
	case p.by != "" && !p.keeps(p.bound):
		return "bound"
	}
	return "missed"
}

func (r *Report) printPromises(out io.Writer) {
	fmt.Fprintln(out, "\npromised, at 64 bytes unless it says otherwise, and what this machine allows at best:")
	for _, p := range r.promises() {
		measured, direction := fmt.Sprintf(p.format, p.measured), "at least"
		if p.unknown {
			measured = "no figure"
		}
		if p.atMost {
			direction = "at most"
		}
		line := fmt.Sprintf("%-6s %-54s %9s, %s %s", p.verdict(), p.what, measured, direction, fmt.Sprintf(p.format, p.limit))
		fmt.Fprintln(out, line)
		if p.by != "" {
			fmt.Fprintf(out, "%-6s %54s %9s\n", "", p.by, fmt.Sprintf(p.format, p.bound))
		}
	}
	fmt.Fprintln(out, "bound: missed, but here not even the least that a capture has to do keeps the limit.")
}
