package capture

import (
	"bytes"
	"testing"
	"unsafe"
)

func recordOf(s samplerSample, packet []byte) []byte {
	head := *(*[sampleSize]byte)(unsafe.Pointer(&s))
	return append(head[:], packet...)
}

func sampleOf(packet []byte, ns uint64) samplerSample {
	return samplerSample{
		Cookie:  uint16(samplerLimitSAMPLE_COOKIE),
		Length:  uint32(len(packet)),
		WireLen: uint32(len(packet)),
		TimeNs:  ns,
	}
}

func packetOf(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)
	}
	return b
}

// The decoder takes exactly what the program can have sent.
func FuzzDecode(f *testing.F) {
	packet := packetOf(60, 1)
	f.Add(recordOf(sampleOf(packet, 1), packet))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r record
		if r.decode(raw); !r.valid {
			return
		}
		s, data := r.samplerSample, r.data
		again := recordOf(*s, data)
		if !bytes.HasPrefix(raw, again) || len(raw)-len(again) >= maxPadding {
			t.Errorf("%x was decoded to %x", raw, again)
		}
		if s.Cookie != uint16(samplerLimitSAMPLE_COOKIE) || int(s.Length) != len(data) || s.WireLen < uint32(len(data)) {
			t.Errorf("%+v was accepted", s)
		}
	})
}
