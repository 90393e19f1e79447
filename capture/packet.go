package capture

import (
	"encoding/binary"
	"math"
	"time"
	"unsafe"

	"github.com/gopacket/gopacket"
)

// A Packet is one packet as a source saw it: its bytes and its Facts. Both are read-only memory
// that the kernel shares. They are valid until [Output.Write] returns, or until the next iteration
// of a loop over [Session.Packets].
type Packet struct {
	*Facts        // never nil
	Data   []byte // from the Ethernet header on, cut to the snapshot length

	Stored *Stored // what else a capture file says of it; nil = it is live
}

// Facts are what is known about a packet. Their memory layout is that of struct facts in
// bpf/include/record.h, which the sampling program writes.
//
// The ID has the number of the CPU in the upper 12 bits, then 12 bits for the hook's index among
// the session's interfaces and programs, and in the lower 40 bits a running number of the packets
// that this hook saw on this CPU. After 2^40 packets the number starts again.
type Facts struct {
	cookie uint16
	Source uint16 // index into Session.Sources
	length uint32 // len(Packet.Data), for packets from a ring

	WireLen uint32  // bytes before truncation, including all fragments of the buffer
	Verdict Verdict // at Exit and TailCall: what the program returned
	Time    int64   // the host's: ns since the Unix epoch, CLOCK_REALTIME; see ClockSetBack
	ID      uint64  // unique in a session, but Entry and Exit of a packet share it
	Dropped uint64  // packets lost since the previous one of the same source and CPU

	// CardTime is the card's stamp if Options.Stamp asks for one, in ns since the Unix epoch or,
	// with AdapterUnsyncedStamp, in ns of the card's own clock. 0 = the card gave none. Packets are
	// in the order of Time, so CardTime may be less than that of an earlier packet.
	CardTime int64

	// ClockSetBack is by how much the wall clock was set back since the previous packet; mostly 0.
	// Only then can Time be less than that of an earlier packet.
	ClockSetBack time.Duration

	// Location and Reason, at StackDrop, say where and why the kernel threw the packet away;
	// [Session.LocationName] and [Session.ReasonName] return their names. At Exit, Reason says why
	// the program dropped it, if it does: see Options.ReasonMap. At FailedRedirect, Reason is the
	// number of an error, and Location is in the function that has returned it. 0 elsewhere.
	Location Location

	// Weight is how many packets this one represents: it was chosen at random as one of this many,
	// by Sample, SampleVerdicts or Adaptive. 0 = not known, because First or MaxRate also skip
	// packets. Packets that SampleFlows skips are not counted in it.
	Weight uint32

	Queue uint32 // the interface's receive queue, see Source.HasQueue

	// Hash is a hash of the packet's addresses and, mostly, its ports; valid if HashKind is not
	// NoHash.
	Hash     uint32
	HashKind HashKind

	// GSOSize is the maximum number of data bytes in a segment, for a sent packet that is yet to be
	// segmented; 0 for other packets, or not known.
	GSOSize uint32

	// To, at Exit, is the interface through which Tx or Redirect sends the packet, unless the
	// kernel drops it on the way; mostly 0. [Session.OutletName] returns its name.
	To Outlet

	// RunTime, at Exit, is how long the traced program ran for the packet, in ns. It includes some
	// 50 ns that the kernel needs to call the tracers; 0 = not known. See MaxRunTime.
	RunTime uint32

	Reason Reason // see Location

	unused uint32

	// The packet's bytes follow in memory. restoreTag puts a stripped VLAN tag back into them. Then
	// these two fields are overwritten by bytes of the packet.
	tagProtocol, tag uint16
}

// A Reason is why a packet was thrown away: by the kernel, a number of its enum skb_drop_reason,
// which differs between kernels, and by a traced program, a number of that program's own.
// [Session.ReasonName] returns its name.
type Reason uint32

// A Location is where the kernel has thrown a packet away: an address within the function.
// [Session.LocationName] returns the function's name. 0 = the kernel has not thrown it away.
type Location uint64

// MaxRunTime is the longest Facts.RunTime. A packet for which the program ran longer has it, too.
const MaxRunTime = math.MaxUint32 * time.Nanosecond

// Len is how many bytes of the packet follow its Facts in memory, in a ring's record or as SetLen
// has noted.
func (f *Facts) Len() int { return int(f.length) }

// SetLen notes Len, for an output that keeps Facts with the bytes after them.
func (f *Facts) SetLen(bytes int) { f.length = uint32(bytes) }

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

const (
	factsSize  = int(unsafe.Sizeof(Facts{}))
	tagSize    = int(samplerHeadLimitTAG_BYTES)
	maxPadding = 8 // records are padded to a multiple of eight bytes
)

// isSent tells whether a program can have sent these facts, judging only by themselves.
func (f *Facts) isSent() bool {
	return f.cookie == uint16(samplerLimitCOOKIE) && f.length <= uint32(MaxSnapLen) && f.length <= f.WireLen
}

// decode makes p the packet of the record in raw, without copying. If no program can have sent the
// record, p has no Data; if it is too short, p has no Facts either.
func (p *Packet) decode(raw []byte) {
	p.Facts, p.Data = nil, nil
	if len(raw) < factsSize {
		return
	}
	// Perf aligns records to only 4 bytes. All processors that Go supports on Linux can load an
	// integer from there.
	p.Facts = (*Facts)(unsafe.Pointer(unsafe.SliceData(raw)))
	if !p.isSent() {
		return
	}
	end := factsSize + int(p.length)
	if uint(len(raw)-end) >= maxPadding { // true also if the difference is negative
		return
	}
	p.Data = raw[factsSize:end]
}

// named is the slot that the record names, or 0.
func (p *Packet) named() int {
	if p.Facts == nil {
		return 0
	}
	return int(p.Source)
}

// isTagBeside tells whether restoreTag will write into the record.
func (f *Facts) isTagBeside() bool { return f.tagProtocol != 0 }

// restoreTag puts a VLAN tag that was stripped back after the MAC addresses, and truncates the
// packet to snapLen bytes again. The tag is in the Facts, right before the addresses; the addresses
// move there to make room. Call it once for each record.
func (p *Packet) restoreTag(snapLen int) {
	const macs = 12
	if !p.isTagBeside() {
		return
	}
	p.WireLen += uint32(tagSize)
	if len(p.Data) < macs {
		return // the packet was truncated before the tag
	}
	protocol, tag := p.tagProtocol, p.tag
	data := unsafe.Slice((*byte)(unsafe.Pointer(&p.tagProtocol)), tagSize+len(p.Data))
	copy(data, p.Data[:macs])
	binary.NativeEndian.PutUint16(data[macs:], protocol)
	binary.BigEndian.PutUint16(data[macs+2:], tag)
	p.Data = data[:min(len(data), snapLen)]
}
