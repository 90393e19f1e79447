package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A promise is a limit that the project promises to keep, and the measured figure; NaN if it is
// missing.
type promise struct {
	name     string
	format   string // of limit, measured and bound
	limit    limit
	measured float64

	// bound is the best figure that any capture can reach on this machine, measured by a program or
	// thread that does less than a capture; NaN if it was not measured. by names that program.
	bound float64
	by    string
}

// A limit is the highest or the lowest figure with which a promise is kept.
type limit struct {
	sign  string // "<=" or ">="
	value float64
}

func atMost(x float64) limit  { return limit{"<=", x} }
func atLeast(x float64) limit { return limit{">=", x} }

// isKeptBy reports whether a value, before rounding, keeps the limit.
func (l limit) isKeptBy(value float64) bool {
	if l.sign == "<=" {
		return value <= l.value
	}
	return value >= l.value
}

// assumedDropTime is the time of a packet under XDP_DROP, in ns, in the promises about a share of
// XDP_DROP's rate. A capture that adds the same ns leaves a larger share on a machine on which
// XDP_DROP takes longer, so these promises do not use the measured time.
const assumedDropTime = 85

// The names of bounds, by the part of a capture's work that was measured alone.
const (
	copies, clockCopies, reads, countsAlone = "copying", "clock, copy", "reading", "counting"
)

// promises returns the promises with their measured figures, always in the same order.
func (r *results) promises() (all []promise) {
	add := func(name, format string, l limit, measured float64) {
		all = append(all, promise{name: name, format: format, limit: l, measured: measured, bound: math.NaN()})
	}
	bounded := func(name, format string, l limit, measured, bound float64, by string) {
		all = append(all, promise{name, format, l, measured, bound, by})
	}

	// The program's time per packet, by BPF_PROG_RUN.
	clock := r.cost(clockName, "", shortSize)
	for _, c := range []struct {
		size  int
		limit float64
	}{{shortSize, 40}, {smallSize, 80}, {middleSize, 105}} {
		bounded(fmt.Sprintf("program: %d bytes", wireSize(c.size)), "%.0f ns", atMost(c.limit),
			r.cost(wholeName, ring, c.size), clock+r.cost(copyingName, "", c.size), clockCopies)
	}
	whole := r.cost(wholeName, ring, shortSize)
	bounded("program: 64 bytes, -j host_lowprec", "%.0f ns", atMost(22),
		r.cost(lowprecName, ring, shortSize), r.cost(copyingName, "", shortSize), copies)
	add("program: 64 bytes, of what perf takes", "%.0f %%", atMost(100.0/3), 100*whole/r.cost(wholeName, perf, shortSize))

	// Traffic on a veth pair.
	sink, kept := r.rate(sinkName(ring), shortSize), r.keptPart(ownName(ring))
	longSink := r.rate(sinkName(ring), longSize)
	// The share of XDP_DROP's rate that is left beside a capture.
	bounded(fmt.Sprintf("--sink: of XDP_DROP, at its %d ns", assumedDropTime), "%.0f %%", atLeast(63),
		shareOf(r.added(sinkName(ring))), shareOf(clock+r.added(copyDropName)), clockCopies)
	bounded("--sink -j host_lowprec: the same", "%.0f %%", atLeast(78),
		shareOf(r.added(lowprecSinkName)), shareOf(r.added(copyDropName)), copies)
	add("--sink: rate without loss, of xdpdump's", "%.1f x", atLeast(4), sink/r.rate(xdpdumpName, shortSize))
	bounded("XDP_PASS: the traffic keeps", "%.0f %%", atLeast(93), 100*kept, 100*r.keptPart(copyPassName), copies)
	add("XDP_PASS: traffic, of that beside tcpdump", "%.2f x", atLeast(1), kept/r.keptPart(tcpdumpName))
	add("XDP_PASS: traffic, of that beside dumpcap", "%.2f x", atLeast(1), kept/r.keptPart(dumpcapName))
	bounded("--sink, 1518 bytes: of XDP_DROP", "%.0f %%", atLeast(45), 100*r.figure(lossless(sinkName(ring), longSize), unitOfDrop),
		100*r.figure(lossless(copyDropName, longSize), unitOfDrop), copies)
	add("--sink, 1518 bytes: rate, of the best other", "%.2f x", atLeast(1), longSink/r.bestOther(longSize))

	add("TCP at tc: rate, of that beside tcpdump", "%.2f x", atLeast(1), r.figure(overTCP(tcName), unitKeeps)/r.figure(overTCP(tcpdumpName), unitKeeps))

	// The process: its CPU time, and how fast it empties rings.
	for _, c := range []struct {
		size  int
		limit float64
	}{{shortSize, 20}, {longSize, 180}} {
		bytes := wireSize(c.size)
		bounded(fmt.Sprintf("reader: %d bytes, traffic with --sink", bytes), "%.0f ns", atMost(c.limit),
			r.reader(sinkName(ring), c.size), r.reader(copyDropName, c.size), reads)
		for i, name := range []string{"one filled ring", "two filled rings"} {
			bounded(fmt.Sprintf("reader: %d bytes, %s", bytes, name), "%.0f ns", atMost(c.limit),
				r.drained(wholeName, c.size, i+1, nowhere, unitNsPacket), r.drained(copyingName, c.size, i+1, nowhere, unitNsPacket), copies)
		}
	}
	bounded("reader: 64 bytes, a filled ring, --format pcap", "%.0f ns", atMost(30),
		r.drained(otherFile, shortSize, 1, nowhere, unitNsPacket), r.drained(copyingName, shortSize, 1, nowhere, unitNsPacket), copies)
	for _, to := range []string{nowhere, inMemory} {
		for rings := 1; rings <= 2; rings++ {
			bounded(fmt.Sprintf("packets/s drained: 64 bytes, rings: %d, %s", rings, to), "%.2f M", atLeast(14.88),
				r.drained(wholeName, shortSize, rings, to, unitPPS)/1e6, r.drained(copyingName, shortSize, rings, to, unitPPS)/1e6, copies)
		}
	}

	// The output stalls for a second: no round may lose a packet.
	for _, s := range stalls {
		worst := math.NaN()
		for _, packets := range r.values[stallName(s.size)][unitLost] {
			worst = larger(worst, packets)
		}
		add(fmt.Sprintf("lost of %.1f Mpps of %d bytes, stall of %.0f s", s.rate/1e6, wireSize(s.size), stallTime.Seconds()),
			"%.0f", atMost(0), worst)
	}

	// Two CPUs: their rate by twice that of one. Skipped packets and counters: the time that they
	// add to XDP_DROP. Filters with "inner": the time that it adds to the filter without. Egress.
	add("two CPUs, of twice one's, by BPF_PROG_RUN", "%.0f %%", atLeast(80), 100*r.figure(twoCPUs(ring), unitScale))
	for _, c := range []struct {
		what, transport string
		limit           float64
	}{{sampleName, r.preferred(), 5}, {noMatchName, r.preferred(), 8}, {"stats", "", 15}, {"count", "", 15}} {
		bounded(c.what+": added to XDP_DROP", "%.1f ns", atMost(c.limit),
			r.cost(c.what, c.transport, shortSize), r.cost(countName, "", shortSize), countsAlone)
	}
	for _, c := range []struct {
		through string
		size    int
		limit   float64
	}{{"", shortSize, 15}, {throughName, vxlanSize, 60}} {
		without := r.cost(noMatchName+c.through, r.preferred(), c.size)
		add("inner"+c.through+": added to a filter without", "%.1f ns", atMost(c.limit),
			r.cost(innerName+c.through, r.preferred(), c.size)-without)
	}
	for _, transport := range transports {
		add(transport+": kernel cost at egress, of that at ingress", "%.2f x", atMost(1.1),
			r.cost(egressName, transport, shortSize)/r.cost(wholeName, transport, shortSize))
	}
	return all
}

// keptPart returns the part of its rate that unpaced traffic of the shortest frames keeps beside a
// tool.
func (r *results) keptPart(entrant string) float64 {
	return r.figure(unpaced(entrant, shortSize), unitKeeps)
}

// dropTime returns the time that a packet of 64 bytes takes under XDP_DROP alone, in ns.
func (r *results) dropTime() float64 { return 1e9 / r.rate(dropName, shortSize) }

// added returns the time that a tool adds to dropTime at its highest rate without loss, in ns.
func (r *results) added(entrant string) float64 {
	return r.dropTime() * (1/r.figure(lossless(entrant, shortSize), unitOfDrop) - 1)
}

// shareOf returns the percentage of XDP_DROP's rate that is left if XDP_DROP takes assumedDropTime
// and a capture adds the given ns; NaN if that is not positive, because the machine was busy.
func shareOf(added float64) float64 {
	if added <= 0 {
		return math.NaN()
	}
	return 100 * assumedDropTime / (assumedDropTime + added)
}

// bestOther returns the highest rate without loss of the other tools and of transport perf.
func (r *results) bestOther(size int) float64 {
	best := math.NaN()
	for _, name := range append([]string{sinkName(perf)}, otherNames...) {
		best = larger(best, r.rate(name, size))
	}
	return best
}

// larger returns the larger value. A value that is NaN is ignored.
func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// verdict reports whether the promise is kept. It is "bound" if it is not, and the machine's own
// bound does not keep the limit, either.
func (p promise) verdict() string {
	switch {
	case math.IsNaN(p.measured):
		return noFigure
	case p.limit.isKeptBy(p.measured):
		return "ok"
	case !math.IsNaN(p.bound) && !p.limit.isKeptBy(p.bound):
		return "bound"
	}
	return "missed"
}

const promiseFormat = "%-6s %-47s %10s %9s%s %9s  %s\n"

// printPromises prints the promises as a table, beside the figures of an earlier xdpcap unless
// before is nil.
func (r *results) printPromises(out io.Writer, before *results) {
	var old []promise
	title := ""
	if before != nil {
		old, title = before.promises(), fmt.Sprintf(" %9s", "before")
	}
	line := func(fields ...any) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf(promiseFormat, fields...), " \n"))
	}
	fmt.Fprintln(out)
	line("", "promised", "limit", "measured", title, "bound", "")
	fmt.Fprintln(out, strings.Repeat("-", 98+len(title)))
	for i, p := range r.promises() {
		bound, by, was := "", "", ""
		if !math.IsNaN(p.bound) {
			bound, by = fmt.Sprintf(p.format, p.bound), p.by
		}
		if old != nil {
			was = fmt.Sprintf(" %9s", formatted(p.format, old[i].measured))
		}
		line(p.verdict(), p.name, p.limit.sign+" "+fmt.Sprintf(p.format, p.limit.value), formatted(p.format, p.measured), was, bound, by)
	}
	fmt.Fprint(out, `
bound: the best that this machine allows, measured with a part of a capture's work. copying: a
    program or a thread that only copies; clock, copy: that also reads the clock; reading: a thread
    that only reads copies; counting: a program that only counts. A promise that is missed says
    "bound" if this figure does not keep it, either.
`)
	if drop, sink := r.dropTime(), r.added(sinkName(ring)); !math.IsNaN(drop + sink) {
		text := fmt.Sprintf("of XDP_DROP: D / (D + c). D is the time of a packet under XDP_DROP, here %.0f ns, and c what a capture adds to it, here with --sink %.0f ns",
			drop, sink)
		if lowprec := r.added(lowprecSinkName); !math.IsNaN(lowprec) {
			text += fmt.Sprintf(", with -j host_lowprec %.0f ns", lowprec)
		}
		fmt.Fprint(out, wrap(text+fmt.Sprintf("; the promise is for a D of %d ns.", assumedDropTime)))
	}
}
