package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A promise is a limit that the project promises to keep, and the measured figure.
type promise struct {
	what     string
	format   string // of limit, measured and bound
	limit    float64
	atMost   bool // else at least
	measured float64
	unknown  bool // a figure is missing
	isNone   bool // 0 is a figure: there was no rate without loss

	// bound is the measured best that any capture can reach on this machine, and by says how it was
	// measured; "" if it was not.
	bound float64
	by    string
}

// shareDrop is the assumed time in ns of a packet under XDP_DROP for promises that are a share of
// XDP_DROP's rate: the share that a capture leaves depends on that time.
const shareDrop = 85

// The names of bounds, in the table and in the legend below it.
const (
	copies, clockCopies, reads, countsAlone = "copying", "clock, copy", "reading", "counting"
)

// promises returns the promises with their measured figures, always in the same order.
func (r *Report) promises() []promise {
	var all []promise
	for _, some := range [][]promise{
		r.programPromises(), r.trafficPromises(), r.readerPromises(), r.stallPromises(), r.otherPromises(),
	} {
		all = append(all, some...)
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

// programPromises are about the program's time per packet, by BPF_PROG_RUN.
func (r *Report) programPromises() (all []promise) {
	short := wireSize(testnet.MinFrame)
	clock := value(r.cost(clockName, "", short).KernelNs)
	for _, c := range []struct {
		size  int
		limit float64
	}{{testnet.MinFrame, 40}, {smallSize, 80}, {middleSize, 105}} {
		bytes := wireSize(c.size)
		all = append(all, promise{
			what: fmt.Sprintf("program: %d bytes", bytes), format: "%.0f ns", limit: c.limit, atMost: true,
			measured: value(r.cost(wholeName, ring, bytes).KernelNs),
			bound:    sum(clock, value(r.cost(copyingName, "", bytes).KernelNs)), by: clockCopies,
		})
	}
	return append(all, promise{
		what: "program: 64 bytes, -j host_lowprec", format: "%.0f ns", limit: 22, atMost: true,
		measured: value(r.cost(pollCost, ring, short).KernelNs),
		bound:    value(r.cost(copyingName, "", short).KernelNs), by: copies,
	}, promise{
		what: "program: 64 bytes, of what perf takes", format: "%.0f %%", limit: 100.0 / 3, atMost: true,
		measured: 100 * ratio(value(r.cost(wholeName, ring, short).KernelNs), value(r.cost(wholeName, perf, short).KernelNs)),
	})
}

// dropNs returns the time of a packet of 64 bytes in traffic under XDP_DROP, and addedNs the
// additional time at a row's highest rate without loss. Both are 0 if unknown.
func (r *Report) dropNs() float64 {
	return ratio(1e9, r.row(wireSize(testnet.MinFrame), dropName).Rate)
}

func (r *Report) addedNs(name string) float64 {
	part := r.row(wireSize(testnet.MinFrame), name).OfDrop
	if part == 0 {
		return 0
	}
	return r.dropNs() * (1/part - 1)
}

// shareOf returns the percentage of XDP_DROP's rate that is left if XDP_DROP takes shareDrop and
// something adds the given ns; 0 if unknown.
func shareOf(added float64) float64 {
	if added <= 0 {
		return 0
	}
	return 100 * shareDrop / (shareDrop + added)
}

// trafficPromises are about traffic on a veth pair.
func (r *Report) trafficPromises() []promise {
	short, long := wireSize(testnet.MinFrame), wireSize(longSize)
	sink, poll, own := r.row(short, sinkName(ring)), r.row(short, pollName), r.row(short, ownName(ring))
	longSink := r.row(long, sinkName(ring))
	clock, copying := value(r.cost(clockName, "", short).KernelNs), r.addedNs(copyDropName)
	var best float64 // of the other tools, without loss
	for _, name := range append([]string{sinkName(perf)}, otherNames...) {
		best = max(best, r.row(long, name).Rate)
	}
	return []promise{
		{
			what: fmt.Sprintf("--sink: of XDP_DROP, at its %d ns", shareDrop), format: "%.0f %%", limit: 63,
			measured: shareOf(r.addedNs(sinkName(ring))), isNone: sink.alwaysLost(),
			bound: shareOf(sum(clock, copying)), by: clockCopies,
		},
		{
			what: "--sink -j host_lowprec: the same", format: "%.0f %%", limit: 78,
			measured: shareOf(r.addedNs(pollName)), isNone: poll.alwaysLost(), bound: shareOf(copying), by: copies,
		},
		{
			what: "--sink: rate without loss, of xdpdump's", format: "%.1f x", limit: 4,
			measured: ratio(sink.Rate, r.row(short, xdpdumpName).Rate), isNone: sink.alwaysLost(),
		},
		{
			what: "XDP_PASS: the traffic keeps", format: "%.0f %%", limit: 93,
			measured: 100 * own.Keeps, bound: 100 * r.row(short, copyPassName).Keeps, by: copies,
		},
		{
			what: "XDP_PASS: traffic, of that beside tcpdump", format: "%.2f x", limit: 1,
			measured: ratio(own.Keeps, r.row(short, tcpdumpName).Keeps),
		},
		{
			what: "XDP_PASS: traffic, of that beside dumpcap", format: "%.2f x", limit: 1,
			measured: ratio(own.Keeps, r.row(short, dumpcapName).Keeps),
		},
		{
			what: "--sink, 1518 bytes: of XDP_DROP", format: "%.0f %%", limit: 45,
			measured: 100 * longSink.OfDrop, isNone: longSink.alwaysLost(),
			bound: 100 * r.row(long, copyDropName).OfDrop, by: copies,
		},
		{
			what: "--sink, 1518 bytes: rate, of the best other", format: "%.2f x", limit: 1,
			measured: ratio(longSink.Rate, best), isNone: longSink.alwaysLost(),
		},
	}
}

// readerPromises are about the process: its CPU time, and how fast it empties rings.
func (r *Report) readerPromises() (all []promise) {
	for _, c := range []struct {
		size  int
		limit float64
	}{{testnet.MinFrame, 20}, {longSize, 180}} {
		bytes := wireSize(c.size)
		all = append(all, promise{
			what: fmt.Sprintf("reader: %d bytes, traffic with --sink", bytes), format: "%.0f ns", limit: c.limit, atMost: true,
			measured: 1000 * r.row(bytes, sinkName(ring)).ReaderUs,
			bound:    1000 * r.row(bytes, copyDropName).ReaderUs, by: reads,
		})
		for rings, name := range []string{1: "one filled ring", 2: "two filled rings"} {
			if rings == 0 {
				continue
			}
			all = append(all, promise{
				what: fmt.Sprintf("reader: %d bytes, %s", bytes, name), format: "%.0f ns", limit: c.limit, atMost: true,
				measured: r.drain(wholeName, bytes, rings, nowhere).CPUNs,
				bound:    r.drain(copyingName, bytes, rings, nowhere).CPUNs, by: copies,
			})
		}
	}
	short := wireSize(testnet.MinFrame)
	all = append(all, promise{
		what: "reader: 64 bytes, a filled ring, --format pcap", format: "%.0f ns", limit: 30, atMost: true,
		measured: r.drain(otherFile, short, 1, nowhere).CPUNs,
		bound:    r.drain(copyingName, short, 1, nowhere).CPUNs, by: copies,
	})
	for _, to := range []string{nowhere, inMemory} {
		for rings := 1; rings <= 2; rings++ {
			all = append(all, promise{
				what: fmt.Sprintf("packets/s drained: 64 bytes, rings: %d, %s", rings, to), format: "%.2f M", limit: 14.88,
				measured: r.drain(wholeName, short, rings, to).Rate / 1e6,
				bound:    r.drain(copyingName, short, rings, to).Rate / 1e6, by: copies,
			})
		}
	}
	return all
}

// stallPromises are about output that accepts nothing for a while.
func (r *Report) stallPromises() (all []promise) {
	for _, s := range stalls {
		bytes := wireSize(s.size)
		got := r.stall(bytes)
		all = append(all, promise{
			what:   fmt.Sprintf("lost of %.1f Mpps of %d bytes, stall of %.0f s", s.rate/1e6, bytes, stallTime.Seconds()),
			format: "%.0f", limit: 0, atMost: true,
			measured: float64(got.Lost), isNone: got.Sent > 0, unknown: got.Missing != "",
		})
	}
	return all
}

// otherPromises are about two CPUs, skipped packets, counters and egress.
func (r *Report) otherPromises() (all []promise) {
	short := wireSize(testnet.MinFrame)
	all = append(all, promise{
		what: "two CPUs, of twice one's, by BPF_PROG_RUN", format: "%.0f %%", limit: 80,
		measured: 100 * r.twoCPUs(ring).Scale,
	})
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
			bound: value(r.cost(countName, "", short).KernelNs), by: countsAlone,
		})
	}
	for _, transport := range transports {
		ingress, egress := r.cost(wholeName, transport, short).KernelNs, r.cost(egressName, transport, short).KernelNs
		all = append(all, promise{
			what: transport + ": kernel cost at egress, of that at ingress", format: "%.2f x", limit: 1.1, atMost: true,
			measured: ratio(value(egress), value(ingress)),
		})
	}
	return all
}

// sum returns a + b, 0 if either is unknown.
func sum(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a + b
}

// preferred is the transport of the figures if both transports have them.
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

// keeps tells whether a value, before rounding, keeps the limit.
func (p promise) keeps(value float64) bool {
	if p.atMost {
		return value <= p.limit
	}
	return value >= p.limit
}

// verdict tells whether the promise is kept. It is "bound" if it is not, and the machine's own
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

const promiseFormat = "%-6s %-47s %10s %9s%s %9s  %s\n"

// printPromises prints the promises as a table, next to those of the earlier xdpcap, if there is
// one.
func (r *Report) printPromises(out io.Writer) {
	var before []promise
	title := ""
	if r.Before != nil {
		before, title = r.Before.promises(), fmt.Sprintf(" %9s", "before")
	}
	head := fmt.Sprintf(promiseFormat, "", "promised", "limit", "measured", title, "bound", "")
	fmt.Fprintf(out, "\n%s\n", strings.TrimRight(head, " \n"))
	fmt.Fprintln(out, strings.Repeat("-", 98+len(title)))
	for i, p := range r.promises() {
		limit, bound, old := ">= ", "", ""
		if p.atMost {
			limit = "<= "
		}
		if p.by != "" {
			bound = fmt.Sprintf(p.format, p.bound)
		}
		if before != nil {
			old = fmt.Sprintf(" %9s", before[i].figure())
		}
		line := fmt.Sprintf(promiseFormat, p.verdict(), p.what, limit+fmt.Sprintf(p.format, p.limit), p.figure(), old, bound, p.by)
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	fmt.Fprint(out, `
bound: what this machine allows: a program or a thread that only copies, that only reads the clock
    and copies, a thread that only reads copies, a program that only counts. A promise that is
    missed where the bound does not keep it either says "bound".
`)
	if drop, sink := r.dropNs(), r.addedNs(sinkName(ring)); drop > 0 && sink > 0 {
		text := fmt.Sprintf("of XDP_DROP: D / (D + c). Here D, a packet under XDP_DROP, takes %.0f ns, and c, what --sink adds to it, %.0f ns",
			drop, sink)
		if poll := r.addedNs(pollName); poll > 0 {
			text += fmt.Sprintf(", with -j host_lowprec %.0f ns", poll)
		}
		fmt.Fprintln(out, wrap(text+fmt.Sprintf("; the promise is for a D of %d ns.", shareDrop), 100, ""))
	}
}

// figure is the measured figure, as the table shows it.
func (p promise) figure() string {
	if p.unknown {
		return noFigure
	}
	return fmt.Sprintf(p.format, p.measured)
}
