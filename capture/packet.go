package capture

import (
	"time"

	"github.com/gopacket/gopacket"
)

// A Packet is one packet as a source saw it: its bytes, and what is known of it besides. Both are
// memory that the kernel shares, for reading only, and valid until the next packet is taken: until
// [Output.Write] returns, or the next round of a loop over [Session.Packets].
type Packet struct {
	*Facts        // never nil
	Data   []byte // from the Ethernet header on, cut to the snapshot length

	file *filePacket // what a capture file has of it besides; nil = it is live
}

// Facts are what is known of a packet. They lie in memory as the sampling program has written them:
// struct facts of bpf/include/record.h has the same fields in the same places.
//
// The ID has the number of the CPU in the upper 12 bits, then 12 bits for the hook, which is the
// place among the session's interfaces and programs, and in the lower 40 the running number of the
// packets that this hook saw on this CPU. After 2^40 packets the number begins again.
type Facts struct {
	cookie uint16
	Source uint16 // index into Session.Sources
	length uint32 // len(Packet.Data), where they come from a ring

	WireLen uint32  // bytes before the cut, all fragments of the buffer included
	Verdict Verdict // at Exit and TailCall: what the program returned
	Time    int64   // the host's: ns since the Unix epoch, CLOCK_REALTIME; see ClockSetBack
	ID      uint64  // unique in a session, but Entry and Exit of a packet share it
	Dropped uint64  // packets lost since the one before this from the same source and CPU

	// CardTime is the stamp that Options.Stamp asks for, in ns since the Unix epoch or, with
	// AdapterUnsyncedStamp, of the card's own clock. 0 = the card gave none. Packets are in the
	// order of Time, so CardTime may be less than that of a packet before.
	CardTime int64

	// ClockSetBack is by how much the wall clock was set back since the packet before; mostly 0.
	// Time is less than that of a packet before only then.
	ClockSetBack time.Duration

	// Weight is how many packets this one stands for: it was drawn at random as one of so many, by
	// Sample, SampleVerdicts or Adaptive. 0 = not known, because First or MaxRate pass packets
	// over besides. What SampleFlows leaves out is not counted in it.
	Weight uint32

	Queue uint32 // the interface's receive queue, see Source.HasQueue

	// Hash is over the packet's addresses and, mostly, its ports, if HashKind is not NoHash.
	Hash     uint32
	HashKind HashKind

	// GSOSize is the most bytes of data in a segment, where what the stack sends is yet to be cut
	// into segments; 0 where it is not, or nothing is known.
	GSOSize uint32

	// To is at Exit the interface that Tx or Redirect sends the packet out of, unless the kernel
	// drops it on the way; mostly 0. [Session.OutletName] has its name.
	To Outlet

	// RunTime is at Exit how long the traced program ran for the packet, in ns, with some 50 ns
	// that the kernel needs to call what traces it; 0 = not known.
	RunTime uint32

	// The packet's bytes follow. A VLAN tag that was kept beside them is in its place by now, and
	// what stands here belongs to the packet: see restoreTag.
	tagProtocol, tag uint16
}

// Stamp is the time that files and lines have of the packet: CardTime or, without it, Time.
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
