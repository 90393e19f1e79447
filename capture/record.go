package capture

import (
	"encoding/binary"
	"unsafe"
)

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

// losses holds what the last record of each CPU and slot said about lost packets. It is not kept by
// ring, because a CPU may have several rings, at once or one after the other.
type losses struct {
	slots int
	byCPU [][]uint64
}

// since returns how many packets of a packet's source were lost on its CPU since the previous
// packet. Its argument still has the slot in Source, and the program's cumulative count in Dropped.
// Call it once for each packet, in the order of time.
func (l *losses) since(f *Facts) uint64 {
	cpu := int(f.ID >> samplerLimitID_CPU_SHIFT)
	if cpu >= len(l.byCPU) {
		l.add(cpu)
	}
	last := &l.byCPU[cpu][f.Source]
	before := *last
	*last = max(before, f.Dropped) // less than before only in a damaged record
	return *last - before
}

// begin notes what programs that had a slot before its present source have lost on each CPU: those
// packets are missing before none of this source's.
func (l *losses) begin(slot int, byCPU []uint64) {
	for cpu, lost := range byCPU {
		if lost > 0 {
			l.add(cpu)
			l.byCPU[cpu][slot] = lost
		}
	}
}

// add adds a CPU.
func (l *losses) add(cpu int) {
	for cpu >= len(l.byCPU) {
		l.byCPU = append(l.byCPU, make([]uint64, l.slots))
	}
}
