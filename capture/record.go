package capture

import (
	"encoding/binary"
	"unsafe"
)

const (
	factsSize  = int(unsafe.Sizeof(Facts{}))
	tagSize    = int(samplerLimitTAG_BYTES)
	maxPadding = 8 // records are padded to a multiple of eight bytes
)

// isSent tells whether a program can have sent these, as far as that can be seen of them alone.
func (f *Facts) isSent() bool {
	return f.cookie == uint16(samplerLimitCOOKIE) && f.length <= uint32(MaxSnapLen) && f.length <= f.WireLen
}

// decode makes p the packet of the record in raw, in place. Where the record is not one that a
// program can have sent, p has no Data, and no Facts if it is too short for that.
func (p *Packet) decode(raw []byte) {
	p.Facts, p.Data = nil, nil
	if len(raw) < factsSize {
		return
	}
	// Perf aligns records to 4 bytes only. All processors that Go makes programs for on Linux load
	// an integer from there, too.
	p.Facts = (*Facts)(unsafe.Pointer(unsafe.SliceData(raw)))
	if !p.isSent() {
		return
	}
	end := factsSize + int(p.length)
	if uint(len(raw)-end) >= maxPadding { // also where the difference is negative
		return
	}
	p.Data = raw[factsSize:end]
}

// isOf tells whether the record was valid in a session with so many sources.
func (p *Packet) isOf(sources int) bool { return p.Data != nil && int(p.Source) < sources }

// named is the source that the record names, or 0.
func (p *Packet) named() int {
	if p.Facts == nil {
		return 0
	}
	return int(p.Source)
}

// isTagBeside tells whether restoreTag will write into the record.
func (f *Facts) isTagBeside() bool { return f.tagProtocol != 0 }

// restoreTag puts a VLAN tag that the kernel keeps beside the packet back to its place after the
// MAC addresses, and cuts the packet to snapLen bytes again. The addresses move to where the tag
// was, which is right before them. It is to be called once for each record.
func (p *Packet) restoreTag(snapLen int) {
	const macs = 12
	if !p.isTagBeside() {
		return
	}
	p.WireLen += uint32(tagSize)
	if len(p.Data) < macs {
		return // the packet was cut before the tag
	}
	protocol, tag := p.tagProtocol, p.tag
	data := unsafe.Slice((*byte)(unsafe.Pointer(&p.tagProtocol)), tagSize+len(p.Data))
	copy(data, p.Data[:macs])
	binary.NativeEndian.PutUint16(data[macs:], protocol)
	binary.BigEndian.PutUint16(data[macs+2:], tag)
	p.Data = data[:min(len(data), snapLen)]
}

// losses has what the last record of each CPU and source said about lost packets. A CPU may have
// several rings, one after the other or beside each other.
type losses struct {
	sources int
	byCPU   [][]uint64
}

// since returns how many packets of a packet's source were lost on its CPU since the packet before.
// Dropped still is the program's count of them. It is to be called once for each packet, in the
// order of time.
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

// add makes room for a CPU.
func (l *losses) add(cpu int) {
	for cpu >= len(l.byCPU) {
		l.byCPU = append(l.byCPU, make([]uint64, l.sources))
	}
}
