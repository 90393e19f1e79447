// Package packet has the types that describe packets, their sources and their accounts. Package
// capture has all of them under the same names. Packages that do not need a live capture use them
// from here: this package imports neither eBPF nor netlink.
package packet

import (
	"fmt"
	"math"
	"time"

	"github.com/gopacket/gopacket"
)

// A Packet is a packet at a source: its bytes, and its Facts as embedded fields. p.WireLen is the
// length on the wire, len(p.Data) how many bytes of it are kept, and p.Stamp() the time.
//
// Both are read-only memory that the kernel shares. They are valid until [Output.Write] returns, or
// until the next iteration of a loop over [Session.Packets].
type Packet struct {
	*Facts        // never nil
	Data   []byte // from the Ethernet header on, cut to the snapshot length
	Source uint16 // index into Session.Sources

	Stored *Stored // the packet's other data in a capture file; nil = it is live
}

// Facts are the data about a packet besides its bytes. Their memory layout is that of struct facts
// in bpf/include/record.h, which the sampling program writes, without its first and last fields.
//
// The ID has the number of the CPU in the upper 12 bits, then 12 bits for the hook's index among
// the session's interfaces and programs, and in the lower 40 bits a running number of the packets
// that this hook saw on this CPU. After 2^40 packets the number starts again.
type Facts struct {
	WireLen uint32  // bytes before truncation, including all fragments of the buffer
	Verdict Verdict // at Exit and TailCall: the program's return value, see VerdictKind
	Time    int64   // the host's: ns since the Unix epoch, CLOCK_REALTIME; see ClockSetBack
	ID      uint64  // unique in a session, but Entry and Exit of a packet share it
	Dropped uint64  // packets lost since the previous one of the same source and CPU

	// CardTime is the card's stamp if Options.Stamp requests one, in ns since the Unix epoch or,
	// with AdapterUnsyncedStamp, in ns of the card's own clock; 0 = there is none. Packets are
	// in the order of Time, so CardTime may be less than that of an earlier packet.
	CardTime int64

	// ClockSetBack is by how much the wall clock was set back since the previous packet, mostly 0.
	// Time is less than that of the previous packet only if it is not 0.
	ClockSetBack time.Duration

	// Location and Reason, at StackDrop, are where and why the kernel threw the packet away;
	// [Session.LocationName] and [Session.ReasonName] return their names. At Exit, Reason is the
	// program's reason for a drop, if it gives one: see Options.ReasonMap. At FailedRedirect,
	// Reason is the number of an error, and Location is in the function that has returned it. They
	// are 0 at other hooks.
	Location Location

	// Weight is how many packets this one represents: it was drawn at random as one of this many,
	// by Sample, SampleVerdicts or Adaptive. 0 = not known, because First or MaxRate also skip
	// packets. Packets that SampleFlows skips do not count.
	Weight uint32

	Queue uint32 // the interface's receive queue, see Source.HasQueue

	// Hash is a hash of the packet's addresses and, mostly, its ports; valid if HashKind is not
	// NoHash.
	Hash     uint32
	HashKind HashKind

	// GSOSize is the maximum number of data bytes in a segment, for a sent packet that is yet to be
	// segmented; 0 for other packets, or not known.
	GSOSize uint16

	VerdictKind VerdictKind // what Verdict means

	// To, at Exit, is the interface through which Tx or Redirect sends the packet, unless the
	// kernel drops it on the way; mostly 0. [Session.OutletName] returns its name. See also Device.
	To Outlet

	// RunTime, at Exit, is how long the traced program ran for the packet, in ns. It includes some
	// 50 ns that the kernel needs to call the tracers; 0 = not known. See MaxRunTime.
	RunTime uint32

	Reason Reason // see Location
}

// Device, at StackDrop of all interfaces together, returns the interface that has lost the packet,
// or the one that received it if the former is not known. To has the same value. 0 = neither is
// known.
func (f *Facts) Device() Outlet {
	if f.Location == 0 || f.Verdict == Tx || f.Verdict == Redirect {
		return 0
	}
	return f.To
}

// A Reason is why a packet was thrown away. If the kernel did, it is a number of enum
// skb_drop_reason, which differs between kernels; if a traced program did, a number that the
// program defines. [Session.ReasonName] returns its name.
type Reason uint32

// A Location is where the kernel has thrown a packet away: an address within a function, of which
// [Session.LocationName] returns the name. 0 = the kernel has not thrown it away.
type Location uint64

// MaxRunTime is the longest Facts.RunTime. A packet for which the program ran longer has it, too.
const MaxRunTime = math.MaxUint32 * time.Nanosecond

// Stamp is the packet's time in files and lines: CardTime or, if that is 0, Time.
func (f *Facts) Stamp() int64 {
	if f.CardTime != 0 {
		return f.CardTime
	}
	return f.Time
}

// CaptureInfo describes the packet to gopacket.
func (p *Packet) CaptureInfo() gopacket.CaptureInfo {
	return gopacket.CaptureInfo{
		Timestamp:      time.Unix(0, p.Stamp()),
		CaptureLength:  len(p.Data),
		Length:         int(p.WireLen),
		InterfaceIndex: int(p.Source),
	}
}

// HashKind is the kind of a packet's hash.
type HashKind uint32

const (
	NoHash       HashKind = iota // it has no hash, or none was requested
	SoftwareHash                 // the kernel's
	CardHash                     // the card's, by a function that its driver does not name
	ToeplitzHash                 // the card's, as for receive side scaling
)

var hashKindNames = [...]string{"", "software", "card", "toeplitz"}

// String returns "software", "card" or "toeplitz"; "" if there is no hash.
func (k HashKind) String() string {
	if int(k) >= len(hashKindNames) {
		return fmt.Sprintf("hash kind %d", uint32(k))
	}
	return hashKindNames[k]
}

// An Outlet is the interface through which an XDP program sends a packet, by Tx or Redirect. 0 = it
// is not known, or the packet goes to no interface or to several.
type Outlet uint32

// Index is the interface's index in its network namespace; 0 = not known.
func (o Outlet) Index() int { return int(o &^ otherNamespace) }

// IsElsewhere reports whether the interface is in another network namespace than the packet's
// source.
func (o Outlet) IsElsewhere() bool { return o&otherNamespace != 0 }

// otherNamespace is TO_OTHER_NETNS of bpf/include/record.h.
const otherNamespace = Outlet(1 << 31)

func (o Outlet) String() string {
	if o.IsElsewhere() {
		return fmt.Sprintf("interface %d of another network namespace", o.Index())
	}
	return fmt.Sprintf("interface %d", o.Index())
}
