package capture

import "unsafe"

const (
	sampleSize = int(unsafe.Sizeof(samplerSample{}))
	maxPadding = 8 // records are padded to a multiple of eight bytes
)

// decode returns the head of a record of bpf/sampler.c and the packet bytes behind it, both as they
// lie in raw. It reports false for anything that the program cannot have sent; the head is nil then
// where raw is too short to have one.
func decode(raw []byte) (*samplerSample, []byte, bool) {
	if len(raw) < sampleSize {
		return nil, nil, false
	}
	// Perf aligns records to 4 bytes only. All processors that Go makes programs for on Linux load
	// an integer from there, too.
	s := (*samplerSample)(unsafe.Pointer(unsafe.SliceData(raw)))
	end := sampleSize + int(s.Length)
	if s.Cookie != uint16(samplerLimitSAMPLE_COOKIE) || s.Length > uint32(MaxSnapLen) || s.Length > s.WireLen {
		return s, nil, false
	}
	if uint(len(raw)-end) >= maxPadding { // also where the difference is negative
		return s, nil, false
	}
	return s, raw[sampleSize:end], true
}

// put moves the cursor onto the record in raw, which stays in use. It reports false for a record
// that fails the check.
func (c *cursor) put(raw []byte) (ok bool) {
	c.rec, c.data, ok = decode(raw)
	return ok && int(c.rec.Source) < c.sources
}

// packet turns the record under the cursor into p, with the time that its stamp means.
func (c *cursor) packet(p *Packet, time int64) {
	// The fields are set one by one, because the compiler builds a literal elsewhere and copies it,
	// which costs as much as the rest of this function.
	s := c.rec
	p.Data = c.data
	p.Time = time
	p.WireLen = int(s.WireLen)
	p.Source = int(s.Source)
	p.Queue = s.RxQueue
	p.ID = s.PacketId
	p.Verdict = Verdict(s.Verdict)
}

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
	for cpu >= len(l.byCPU) {
		l.byCPU = append(l.byCPU, make([]uint64, l.sources))
	}
	last := &l.byCPU[cpu][s.Source]
	before := *last
	*last = s.Lost
	return s.Lost - min(before, s.Lost) // less than before only in a damaged record
}
