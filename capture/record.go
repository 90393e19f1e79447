package capture

import "unsafe"

const (
	sampleSize = int(unsafe.Sizeof(samplerSample{}))
	maxPadding = 8 // perf pads a record to a multiple of eight bytes
)

// decode copies the head of a record of bpf/sampler.c into s and returns the packet bytes behind it.
// It reports false for anything that the program cannot have sent.
func decode(raw []byte, s *samplerSample) ([]byte, bool) {
	if len(raw) < sampleSize {
		return nil, false
	}
	// Perf aligns records to 8 and their payload to 4: the struct cannot be used in place.
	*(*[sampleSize]byte)(unsafe.Pointer(s)) = *(*[sampleSize]byte)(raw)
	end := sampleSize + int(s.Length)
	if s.Cookie != uint16(samplerLimitSAMPLE_COOKIE) || int(s.Length) > MaxSnapLen || uint32(s.Length) > s.WireLen {
		return nil, false
	}
	if len(raw) < end || len(raw) >= end+maxPadding {
		return nil, false
	}
	return raw[sampleSize:end:end], true
}
