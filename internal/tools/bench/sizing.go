package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unsafe"

	"github.com/xdpcap/xdpcap/capture"
)

// recordExtra is how many bytes a record has besides the packet: the ring's header, and struct
// facts of bpf/include/record.h, which is the facts and 16 bytes around them.
const recordExtra = 8 + 16 + int(unsafe.Sizeof(capture.Facts{}))

// Assumptions that were not measured. docs/sizing.md gives the reasons.
const (
	fullCPU     = 0.8   // the part of a CPU that may be used: load is never even
	pause       = 0.05  // seconds that a reader may be kept from its rings
	blockExtra  = 64    // bytes of a packet's block in the file besides the packet
	frameGap    = 20    // bytes on the wire around a frame: preamble and gap
	mostCPUs    = 64    // that a card spreads its packets over
	mostRing    = 256   // MiB of a ring: -B takes no more
	mostMemory  = 120e9 // bytes per second through a socket's memory
	mostOutput  = 5e9   // bytes per second that the output takes
	sampledPart = float64(1) / 1000
)

// needs are the needs of a capture on a link that is full of frames of one size.
type needs struct {
	pps         float64 // packets per second
	cpus, added float64 // CPUs that receive; those of them that capturing adds
	reader      float64 // CPUs that the reader is busy for
	rings       float64 // bytes of ring memory, for a pause of the reader
	memory      float64 // bytes per second through the memory
	output      float64 // bytes per second
}

// A sizing has the measured times that needs are computed from, in ns per packet; NaN if unknown.
type sizing struct {
	drop, sink, skip float64

	live   float64 // of the reader, in traffic
	filled float64 // of the reader from filled rings of two CPUs
	reader float64 // filled, because a reader at its limit never waits; else live
}

// sizing returns the measured times at a frame size.
func (r *results) sizing(size int) sizing {
	transport := r.preferred()
	sink, own, whole := sinkName(transport), ownName(transport), r.cost(wholeName, transport, size)
	s := sizing{
		drop:   1e9 / r.rate(dropName, size),
		skip:   r.cost(sampleName, transport, shortSize),
		live:   orElse(r.reader(sink, size), r.reader(own, size)),
		filled: r.drained(wholeName, size, 2, nowhere, unitNsPacket),
	}
	s.reader = orElse(s.filled, s.live)
	// If packets were lost, the rate does not contain the whole cost of capturing.
	if s.sink = s.drop / r.figure(unpaced(sink, size), unitKeeps); r.figure(unpaced(sink, size), unitCaptured) < 1 {
		s.sink = s.drop + whole
	}
	return s
}

// isComplete reports whether all times that needs are computed from were measured.
func (s sizing) isComplete() bool { return !math.IsNaN(s.drop + s.sink + s.skip + s.reader) }

// orElse returns the first value, or the second if the first is NaN.
func orElse(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return a
}

// recordSize returns the bytes of a packet's record in the ring, and blockSize those of its block
// in the file.
func recordSize(packet int) int { return (packet+7)&^7 + recordExtra }

func blockSize(packet int) int { return (packet+3)&^3 + blockExtra }

// needs computes the needs of a capture of a part of the packets: all of them, or sampledPart.
func (s sizing) needs(gbits float64, bytes int, part float64) needs {
	n := needs{pps: gbits * 1e9 / 8 / float64(bytes+frameGap)}
	each := s.sink
	if part < 1 {
		each = s.drop + s.skip
	}
	n.cpus = n.pps * each / 1e9 / fullCPU
	n.added = n.pps * (each - s.drop) / 1e9 / fullCPU
	n.reader = part * n.pps * s.reader / 1e9
	record, block := float64(recordSize(bytes-checksum)), float64(blockSize(bytes-checksum))
	n.rings = part * n.pps * record * pause
	n.output = part * n.pps * block
	// The program writes the record and the reader reads it; the reader writes the block and the
	// output reads it.
	n.memory = part * n.pps * 2 * (record + block)
	return n
}

// nearestLimit returns the limit of which the largest part is needed, and that part.
func (n needs) nearestLimit() (name string, part float64) {
	for _, l := range []struct {
		name string
		part float64
	}{
		{"reader", n.reader / 1},
		{"CPUs", n.cpus / mostCPUs},
		{"memory", n.memory / mostMemory},
		{"output", n.output / mostOutput},
	} {
		if l.part > part {
			name, part = l.name, l.part
		}
	}
	return name, part
}

// buffer returns the value of -B in MiB: the part of the rings that one CPU needs, rounded up to a
// power of two, at least the default.
func (n needs) buffer() int {
	each, mib := n.rings/math.Ceil(n.cpus)/(1<<20), ringBytes>>20
	for float64(mib) < each {
		mib *= 2
	}
	return mib
}

const sizingFormat = "    %6s %5s %6s %5s %5s %6s %8s %6s %9s %9s  %s\n"

// printSizing prints the tables of docs/sizing.md.
func (r *results) printSizing(out io.Writer) {
	fmt.Fprintln(out, wrap(fmt.Sprintf("Measured on %s, transport %s; ns per packet:", r.machine(), r.preferred())))
	const format = "    %6s   %8s %9s   %14s   %10s %12s\n"
	fmt.Fprintf(out, format, "frame", "XDP_DROP", "captured", "passed over by", "reader in", "reader from")
	fmt.Fprintf(out, format, "bytes", "alone", "", "--sample 1000", "traffic", "filled rings")
	sizes := []int{shortSize, smallSize, middleSize, longSize}
	for _, size := range sizes {
		s, ns := r.sizing(size), func(x float64) string { return formatted("%.0f", x) }
		fmt.Fprintf(out, format, fmt.Sprint(wireSize(size)), ns(s.drop), ns(s.sink), formatted("%.1f", s.skip), ns(s.live), ns(s.filled))
	}
	r.printBandwidth(out)
	r.printRooms(out)
	for _, kind := range []struct {
		title string
		part  float64
	}{{"Every packet captured, whole", 1}, {"One packet of 1000 captured, whole", sampledPart}} {
		fmt.Fprintf(out, "\n%s:\n\n", kind.title)
		fmt.Fprintf(out, sizingFormat, "Gbit/s", "frame", "Mpps", "CPUs", "added", "reader", "rings", "-B", "memory", "output", "nearest limit")
		for _, gbits := range []float64{10, 25, 100} {
			for _, size := range sizes {
				s, bytes := r.sizing(size), wireSize(size)
				if !s.isComplete() {
					continue
				}
				n := s.needs(gbits, bytes, kind.part)
				limit, part := n.nearestLimit()
				fmt.Fprintf(out, sizingFormat, fmt.Sprint(gbits), fmt.Sprint(bytes), fmt.Sprintf("%.2f", n.pps/1e6),
					number(n.cpus), number(n.added), number(n.reader),
					scaled(n.rings), bufferFlag(n.buffer()), scaled(n.memory)+"/s", scaled(n.output)+"/s", limit+" "+share(part))
			}
		}
	}
}

// printBandwidth prints the speed of bytes into and out of a ring: the additional bytes of the
// longer packet divided by the additional time.
func (r *results) printBandwidth(out io.Writer) {
	transport := r.preferred()
	speed := func(time func(name string, size int) float64, name string) float64 {
		return (longSize - shortSize) / (time(name, longSize) - time(name, shortSize))
	}
	in := speed(func(name string, size int) float64 { return r.cost(name, transport, size) }, wholeName)
	if !(in > 0) {
		return
	}
	text := fmt.Sprintf("A CPU writes %.0f GB/s into its ring", in)
	if outOf := speed(r.reader, sinkName(transport)); outOf > 0 {
		text += fmt.Sprintf(", and the reader takes %.1f GB/s out of it and hands them to write(2)", outOf)
	}
	fmt.Fprint(out, "\n"+wrap(text+", by what 1518 bytes take longer than 64."))
}

// printRooms prints whether larger rings lose less of long packets at high rates.
func (r *results) printRooms(out io.Writer) {
	var found []string
	isLess := false
	for _, to := range []string{inMemory, onDisk} {
		s := sheet{size: longSize, to: to}
		usual, large := s.name("Unpaced", sinkName(ring)), s.name("Unpaced", roomName)
		gain := r.figure(large, unitCaptured) - r.figure(usual, unitCaptured)
		if math.IsNaN(gain) {
			continue
		}
		found = append(found, fmt.Sprintf("into a file on a %s %s are captured with the rings of 8 MiB, and %s with -B 64M",
			to, r.capturedOf(usual), r.capturedOf(large)))
		isLess = isLess || gain > roomGain
	}
	if found == nil {
		return
	}
	advice := "So larger rings change nothing at such a rate on this machine; they help where the reader is kept away for longer."
	if isLess {
		advice = "So give long packets at high rates -B 64M."
	}
	fmt.Fprint(out, "\n"+wrap(fmt.Sprintf("Of unpaced packets of %d bytes, %s. %s", wireSize(longSize), strings.Join(found, "; "), advice)))
}

// roomGain is how much more of the packets must be captured for larger rings to be recommended.
const roomGain = 0.002

// bufferFlag prints a size of rings in the form of -B; above the largest one, as ">256M".
func bufferFlag(mib int) string {
	if mib > mostRing {
		return fmt.Sprintf(">%dM", mostRing)
	}
	return fmt.Sprintf("%dM", mib)
}

func number(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func scaled(x float64) string {
	unit := 0
	for ; x >= 1000 && unit < 3; unit++ {
		x /= 1000
	}
	return number(x) + " " + []string{"B", "kB", "MB", "GB"}[unit]
}

// share prints a part of a limit; above the limit, as a multiple.
func share(part float64) string {
	if part > 1 {
		return fmt.Sprintf("%.1f x", part)
	}
	return percent(part)
}
