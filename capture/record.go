package capture

import "unsafe"

const (
	sampleSize = int(unsafe.Sizeof(samplerSample{}))
	maxPadding = 8 // perf pads a record to a multiple of eight bytes
)

// decode copies the head of a record of bpf/sampler.c into s and returns the packet bytes behind
// it. It reports false for anything that the program cannot have sent.
func decode(raw []byte, s *samplerSample) ([]byte, bool) {
	if len(raw) < sampleSize {
		return nil, false
	}
	// Perf aligns records to 8 bytes and their payload to 4, so the struct cannot be used in place.
	*(*[sampleSize]byte)(unsafe.Pointer(s)) = *(*[sampleSize]byte)(raw)
	end := sampleSize + int(s.Length)
	if s.Cookie != uint16(samplerLimitSAMPLE_COOKIE) || int(s.Length) > MaxSnapLen || uint32(s.Length) > s.WireLen {
		return nil, false
	}
	if uint(len(raw)-end) >= maxPadding { // also where the difference is negative
		return nil, false
	}
	return raw[sampleSize:end], true
}

// put moves the cursor onto the record in raw, which stays in use. It reports false for a record
// that fails the check.
func (c *cursor) put(raw []byte) (ok bool) {
	c.data, ok = decode(raw, &c.rec)
	return ok && c.rec.Source < c.sources
}

// packet turns the record under the cursor into p, with the time that its stamp means. It is to be
// called once for each record.
func (c *cursor) packet(p *Packet, time int64) {
	// The fields are set one by one, because the compiler builds a literal elsewhere and copies it,
	// which costs as much as the rest of this function.
	p.Data = c.data
	p.Time = time
	p.WireLen = int(c.rec.WireLen)
	p.Source = int(c.rec.Source)
	p.Queue = c.rec.RxQueue
	p.ID = c.rec.PacketId
	p.Verdict = Verdict(c.rec.Verdict)
	p.Dropped = c.dropped()
}

// dropped returns how many packets of the record's source were lost on this CPU since the record
// before.
func (c *cursor) dropped() uint64 {
	before := c.lost[c.rec.Source]
	c.lost[c.rec.Source] = c.rec.Lost
	return c.rec.Lost - min(before, c.rec.Lost) // less than before only in a damaged record
}
