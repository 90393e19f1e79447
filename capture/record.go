package capture

import (
	"encoding/binary"
	"unsafe"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
)

// A record is struct facts of bpf/include/record.h, which the sampling program writes before the
// packet's bytes.
type record struct {
	cookie uint16
	source uint16 // the source's slot
	length uint32 // bytes of the packet that follow
	Facts
	unused uint32

	// The packet's bytes follow in memory. restoreTag puts a stripped VLAN tag back into them. Then
	// these two fields are overwritten by bytes of the packet.
	tagProtocol, tag uint16
}

const (
	recordSize = int(unsafe.Sizeof(record{}))
	tagSize    = int(kernel.SamplerHeadLimitTAG_BYTES)
	maxPadding = 8 // records are padded to a multiple of eight bytes
)

// recordOf returns the record that a packet's Facts are part of.
func recordOf(f *Facts) *record {
	return (*record)(unsafe.Add(unsafe.Pointer(f), -int(unsafe.Offsetof(record{}.Facts))))
}

// isSent reports whether a program can have sent this record, judging only by itself.
func (r *record) isSent() bool {
	return r.cookie == uint16(kernel.SamplerLimitCOOKIE) && r.length <= uint32(MaxSnapLen) && r.length <= r.WireLen
}

// stamp is the stamp of a record; 0 if no program can have sent it.
func (r *record) stamp() uint64 {
	if !r.isSent() {
		return 0
	}
	return uint64(r.Time)
}

// decode makes p the packet of the record in raw, without copying. If no program can have sent the
// record, p has no Data; if it is too short, p has no Facts either.
func decode(p *Packet, raw []byte) {
	*p = Packet{}
	if len(raw) < recordSize {
		return
	}
	// Perf aligns records to only 4 bytes. All processors that Go supports on Linux can load an
	// integer from there.
	r := (*record)(unsafe.Pointer(unsafe.SliceData(raw)))
	p.Facts, p.Source = &r.Facts, r.source
	if !r.isSent() {
		return
	}
	end := recordSize + int(r.length)
	if uint(len(raw)-end) >= maxPadding { // true also if the difference is negative
		return
	}
	p.Data = raw[recordSize:end]
}

// isTagBeside reports whether restoreTag will write into the record.
func (r *record) isTagBeside() bool { return r.tagProtocol != 0 }

// restoreTag puts a VLAN tag that was stripped back after the MAC addresses, and truncates the
// packet to snapLen bytes again. The tag is in the record, right before the addresses; the
// addresses move there to make room. Call it once for each record.
func restoreTag(p *Packet, snapLen int) {
	const macs = 12
	r := recordOf(p.Facts)
	if !r.isTagBeside() {
		return
	}
	p.WireLen += uint32(tagSize)
	if len(p.Data) < macs {
		return // the packet was truncated before the tag
	}
	protocol, tag := r.tagProtocol, r.tag
	data := unsafe.Slice((*byte)(unsafe.Pointer(&r.tagProtocol)), tagSize+len(p.Data))
	copy(data, p.Data[:macs])
	binary.NativeEndian.PutUint16(data[macs:], protocol)
	binary.BigEndian.PutUint16(data[macs+2:], tag)
	p.Data = data[:min(len(data), snapLen)]
}
