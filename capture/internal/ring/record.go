package ring

import (
	"encoding/binary"
	"unsafe"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// A Record is struct facts of bpf/include/record.h, which the sampling program writes before the
// packet's bytes.
type Record struct {
	Cookie uint16
	Source uint16 // the source's slot
	Length uint32 // bytes of the packet that follow
	packet.Facts
	unused uint32

	// TagProtocol and Tag are the VLAN tag that was stripped from the packet; 0 = none. The
	// packet's bytes follow them in memory: RestoreTag, which puts the tag back, overwrites both
	// fields.
	TagProtocol, Tag uint16
}

const (
	recordSize = int(unsafe.Sizeof(Record{}))
	tagSize    = int(kernel.SamplerHeadLimitTAG_BYTES)
	maxPadding = 8 // records are padded to a multiple of eight bytes
)

// recordOf returns the record that a packet's Facts are part of.
func recordOf(f *packet.Facts) *Record {
	return (*Record)(unsafe.Add(unsafe.Pointer(f), -int(unsafe.Offsetof(Record{}.Facts))))
}

// isSent reports whether a program can have sent this record, by its cookie and its lengths.
func (r *Record) isSent() bool {
	return r.Cookie == uint16(kernel.SamplerLimitCOOKIE) && r.Length <= uint32(MaxSnapLen) && r.Length <= r.WireLen
}

// stamp is the stamp of a record; 0 if no program can have sent it.
func (r *Record) stamp() uint64 {
	if !r.isSent() {
		return 0
	}
	return uint64(r.Time)
}

// decode makes p the packet of the record in raw, without copying it. If no program can have sent
// the record, p has no Data; if raw is shorter than a record, p has no Facts either.
func decode(p *packet.Packet, raw []byte) {
	*p = packet.Packet{}
	if len(raw) < recordSize {
		return
	}
	// Perf aligns records to only 4 bytes. All processors that Go supports on Linux can load an
	// integer from there.
	r := (*Record)(unsafe.Pointer(unsafe.SliceData(raw)))
	p.Facts, p.Source = &r.Facts, r.Source
	if !r.isSent() {
		return
	}
	end := recordSize + int(r.Length)
	if uint(len(raw)-end) >= maxPadding { // a negative difference is a large uint
		return
	}
	p.Data = raw[recordSize:end]
}

// hasTag reports whether a VLAN tag was stripped. RestoreTag then writes into the record.
func (r *Record) hasTag() bool { return r.TagProtocol != 0 }

// RestoreTag puts a VLAN tag that was stripped back after the MAC addresses, and truncates the
// packet to snapLen bytes again. The tag is in the record, right before the addresses; the
// addresses move there to make room. Call it once for each record.
func RestoreTag(p *packet.Packet, snapLen int) {
	const macs = 12
	r := recordOf(p.Facts)
	if !r.hasTag() {
		return
	}
	p.WireLen += uint32(tagSize)
	if len(p.Data) < macs {
		return // the packet was truncated before the tag
	}
	protocol, tag := r.TagProtocol, r.Tag
	data := unsafe.Slice((*byte)(unsafe.Pointer(&r.TagProtocol)), tagSize+len(p.Data))
	copy(data, p.Data[:macs])
	binary.NativeEndian.PutUint16(data[macs:], protocol)
	binary.BigEndian.PutUint16(data[macs+2:], tag)
	p.Data = data[:min(len(data), snapLen)]
}
