// Package dissect formats a packet as the line that tcpdump -nS prints for it, so that people and
// scripts used to tcpdump find the same fields. Sequence numbers are absolute, as with -S: relative
// ones need the state of every flow, and a sample of packets rarely has a flow's SYN.
//
// Each header is decoded when the line reaches it, field by field up to the end of the bytes;
// fields that are not printed are not read.
//
// For protocols that tcpdump decodes and this package does not, a line has the headers before them.
// It never contradicts tcpdump's line.
package dissect

import (
	"fmt"
	"time"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// Options select the fields to print. The zero value prints the same as tcpdump without flags.
type Options struct {
	Verbose   int        // -v: 1 to 3
	Quiet     bool       // -q: less about protocols
	LinkLevel bool       // -e: the Ethernet header
	Number    bool       // -#: the number of the line's packet, from 1 on
	Lengths   bool       // --lengths: the captured and the original length in bytes
	Time      TimeFormat // -t

	Nanoseconds bool // --nano: times have nanoseconds instead of microseconds
	Unverified  bool // -K: checksums are not verified

	Dump          Dump // -x, -X, -A: the bytes of the packet
	DumpLinkLevel bool // -xx, -XX, -AA: the bytes of its Ethernet header, too
}

// A Packet is the input for a line.
type Packet struct {
	Time    time.Time
	Untimed bool   // it has no time
	Data    []byte // from the header of its link type on; only read, and not kept
	WireLen int    // bytes before the packet was cut to Data
	Origin  []byte // printed after the time, followed by a space; not printed if empty

	Link     headers.Link
	LinkName string // name of the type if Link is UnknownLink; its headers are not decoded
}

// A Dissector turns packets into lines. It belongs to one goroutine.
type Dissector struct {
	o      Options
	stamps stamps
	count  uint64 // packets so far

	line         []byte // the caller's bytes, then the packet's line so far
	start        int    // index of the headers in line, plus bytes that maxText does not count
	linkSize     int    // bytes of the headers before the first IP header, which a dump omits
	unknownShown int    // bytes of unknown formats in the line
	proto        string // the protocol in a truncation mark
	net          network
}

// New returns a Dissector.
func New(o Options) *Dissector { return &Dissector{o: o, stamps: newStamps(&o)} }

// AppendLine appends the packet's line to dst, with a newline at the end, and returns the longer
// slice. Verbosity and dumps make several lines of a packet.
func (d *Dissector) AppendLine(dst []byte, p Packet) []byte {
	d.line = dst
	d.count++
	if d.o.Number {
		d.line = fmt.Appendf(d.line, "%5d  ", d.count)
	}
	if d.o.Lengths {
		d.line = fmt.Appendf(d.line, "caplen %d, len %d, ", len(p.Data), p.WireLen)
	}
	d.line = d.stamps.append(d.line, p.Time, !p.Untimed)
	if len(p.Origin) > 0 {
		d.line = append(append(d.line, p.Origin...), ' ')
	}
	d.start, d.linkSize, d.unknownShown, d.net = len(d.line), 0, 0, network{}
	d.decode(p)
	if d.o.DumpLinkLevel {
		d.linkSize = 0
	}
	d.dump(skip(p.Data, d.linkSize))
	line := append(d.line, '\n')
	d.line, d.net = nil, network{} // the line and the bytes are the caller's
	return line
}

// decode appends the headers of a packet, until a decoder ends the line.
func (d *Dissector) decode(p Packet) {
	defer func() {
		if cause := recover(); cause != nil && cause != (lineEnd{}) {
			panic(cause)
		}
	}()
	length := max(p.WireLen, len(p.Data))
	switch p.Link {
	case headers.Ethernet:
		d.ether(p.Data, length)
	case headers.Cooked, headers.Cooked2:
		d.cooked(p.Data, length, p.Link)
	case headers.Raw:
		d.raw(p.Data, length)
	case headers.Loopback:
		d.bsdLoopback(p.Data, length)
	case headers.WiFi, headers.Radiotap:
		d.wifi(p.Data, length, p.Link)
	default:
		d.addf("%s, length %d: not decoded", p.LinkName, p.WireLen)
	}
}

// linkHeader counts n bytes of a header before the first IP header.
func (d *Dissector) linkHeader(n int) {
	if d.net.version == 0 {
		d.linkSize += n
	}
}

// dump appends bytes of the packet.
func (d *Dissector) dump(data []byte) {
	switch {
	case len(data) == 0:
	case d.o.Dump == HexDump, d.o.Dump == HexASCIIDump:
		d.line = appendHex(d.line, data, d.o.Dump == HexASCIIDump, "\n\t")
	case d.o.Dump == ASCIIDump:
		d.line = appendASCII(d.line, data)
	}
}
