package capture

import (
	"encoding/binary"
	"unsafe"
)

const (
	sampleSize = int(unsafe.Sizeof(samplerSample{}))
	extraSize  = int(unsafe.Sizeof(samplerExtra{}))
	tagSize    = int(samplerLimitTAG_BYTES)
	maxPadding = 8 // records are padded to a multiple of eight bytes
)

// A record is one of bpf/sampler.c. All but valid lies in the memory of a ring.
type record struct {
	*samplerSample               // nil where it has none, and is not valid
	extra          *samplerExtra // nil where the source sends none
	data           []byte        // the packet's bytes
	valid          bool          // the program can have sent it
}

// decode makes r the record in raw, and checks it.
func (r *record) decode(raw []byte) {
	r.valid, r.extra = false, nil
	if len(raw) < sampleSize {
		r.samplerSample, r.data = nil, nil
		return
	}
	// Perf aligns records to 4 bytes only. All processors that Go makes programs for on Linux load
	// an integer from there, too.
	s := (*samplerSample)(unsafe.Pointer(unsafe.SliceData(raw)))
	r.samplerSample = s
	if s.Length > uint32(MaxSnapLen+extraSize) {
		return
	}
	start, end := sampleSize, sampleSize+int(s.Length)
	if uint(len(raw)-end) >= maxPadding { // also where the difference is negative
		return
	}
	switch s.Cookie {
	case uint16(samplerLimitSAMPLE_COOKIE):
	case uint16(samplerLimitEXTRA_COOKIE):
		if s.Length < uint32(extraSize) {
			return
		}
		r.extra = (*samplerExtra)(unsafe.Pointer(&raw[sampleSize]))
		start += extraSize
	default:
		return
	}
	if end-start > MaxSnapLen || uint32(end-start) > s.WireLen {
		return
	}
	r.data, r.valid = raw[start:end], true
}

// isToChange tells whether restoreTag will write into the record.
func (r *record) isToChange() bool { return r.extra != nil && r.extra.TagProtocol != 0 }

// restoreTag puts a VLAN tag that the kernel keeps beside the packet back to its place behind the
// MAC addresses, and cuts the packet to snapLen bytes again. The addresses move into the room at
// the end of struct extra. It is to be called once for each record.
func (r *record) restoreTag(snapLen int) {
	const macs = 12
	if !r.isToChange() {
		return
	}
	r.WireLen += uint32(tagSize)
	if len(r.data) < macs {
		return // the packet was cut before the tag
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(&r.extra.Room)), tagSize+len(r.data))
	copy(data, r.data[:macs])
	binary.NativeEndian.PutUint16(data[macs:], r.extra.TagProtocol)
	binary.BigEndian.PutUint16(data[macs+2:], r.extra.Tag)
	r.data = data[:min(len(data), snapLen)]
}

// source is the index of the source that the record names, or 0.
func (r *record) source() int {
	if r.samplerSample == nil {
		return 0
	}
	return int(r.Source)
}

// isOf tells whether the record is valid in a session with so many sources.
func (r *record) isOf(sources int) bool { return r.valid && int(r.Source) < sources }

// losses has what the last record of each CPU and source said about lost packets. A CPU may have
// several rings, one after the other or beside each other.
type losses struct {
	sources int
	byCPU   [][]uint64
}

// since returns how many packets of a record's source were lost on its CPU since the record before.
// It is to be called once for each record, in the order of time.
func (l *losses) since(s *samplerSample) uint64 {
	cpu := int(s.PacketId >> samplerLimitID_CPU_SHIFT)
	if cpu >= len(l.byCPU) {
		l.add(cpu)
	}
	last := &l.byCPU[cpu][s.Source]
	before := *last
	*last = max(before, s.Lost) // less than before only in a damaged record
	return *last - before
}

// add makes room for a CPU.
func (l *losses) add(cpu int) {
	for cpu >= len(l.byCPU) {
		l.byCPU = append(l.byCPU, make([]uint64, l.sources))
	}
}
