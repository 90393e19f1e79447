package capture

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
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

// extraRecordOf is the record of a source that sends a struct extra.
func extraRecordOf(s samplerSample, x samplerExtra, packet []byte) []byte {
	s.Cookie = uint16(samplerLimitEXTRA_COOKIE)
	s.Length += uint32(extraSize)
	head := *(*[extraSize]byte)(unsafe.Pointer(&x))
	return recordOf(s, append(head[:], packet...))
}

// taggedExtra has an 802.1ad tag beside the packet.
func taggedExtra() samplerExtra {
	return samplerExtra{GsoSize: 1448, TagProtocol: 0xa888, Tag: 0x2005} // 0x88a8 in network order
}

// A record with a struct extra has the packet behind it, and one that is too short for it is
// invalid.
func TestDecodeExtra(t *testing.T) {
	packet := packetOf(60, 1)
	var r record
	r.decode(extraRecordOf(sampleOf(packet, 1), taggedExtra(), packet))
	if !r.valid || !bytes.Equal(r.data, packet) || *r.extra != taggedExtra() {
		t.Errorf("valid %v, extra %+v, packet %x", r.valid, r.extra, r.data)
	}
	// The record that follows in the same place has none.
	if r.decode(recordOf(sampleOf(packet, 1), packet)); !r.valid || r.extra != nil {
		t.Errorf("valid %v, extra %+v", r.valid, r.extra)
	}
	short := sampleOf(nil, 1)
	short.Cookie, short.WireLen = uint16(samplerLimitEXTRA_COOKIE), 60
	for length := range extraSize {
		short.Length = uint32(length)
		if r.decode(recordOf(short, make([]byte, length))); r.valid {
			t.Errorf("a struct extra of %d bytes was accepted", length)
		}
	}
	longer := sampleOf(packet, 1)
	longer.WireLen = 59
	if r.decode(extraRecordOf(longer, samplerExtra{}, packet)); r.valid {
		t.Error("a packet of more bytes than it has was accepted")
	}
}

// A tag beside the packet comes back to its place, and no more than the snapshot length is kept.
func TestRestoreTag(t *testing.T) {
	whole := packetOf(60, 1)
	tagged := append(append([]byte(nil), whole[:12]...), 0x88, 0xa8, 0x20, 0x05)
	tagged = append(tagged, whole[12:]...)
	for _, snapLen := range []int{1, 11, 12, 13, 14, 16, 17, 59, 60, 63, 64, 65, 1000} {
		t.Run(fmt.Sprint(snapLen), func(t *testing.T) {
			packet := whole[:min(snapLen, len(whole))]
			s := sampleOf(packet, 1)
			s.WireLen = uint32(len(whole))
			var r record
			r.decode(extraRecordOf(s, taggedExtra(), packet))
			r.restoreTag(snapLen)
			if want := tagged[:min(snapLen, len(tagged))]; !bytes.Equal(r.data, want) {
				t.Errorf("%x\nwant %x", r.data, want)
			}
			if r.WireLen != 64 || r.extra.GsoSize != 1448 {
				t.Errorf("%d bytes on the wire, want 64; GSO size %d", r.WireLen, r.extra.GsoSize)
			}
		})
	}
	var r record
	r.decode(extraRecordOf(sampleOf(whole, 1), samplerExtra{}, whole))
	if r.restoreTag(1000); !bytes.Equal(r.data, whole) || r.WireLen != 60 {
		t.Errorf("without a tag: %x, %d bytes on the wire", r.data, r.WireLen)
	}
}

// A damaged record whose losses are less than those before it changes nothing: the next one counts
// from the most that there were.
func TestLosses(t *testing.T) {
	l := losses{sources: 2}
	var got []uint64
	for _, lost := range []uint64{0, 5, 5, 3, 7} {
		got = append(got, l.since(&samplerSample{Source: 1, Lost: lost}))
	}
	for _, other := range []samplerSample{ // each CPU and source has its own
		{Source: 0, Lost: 4}, {Source: 1, PacketId: 2 << samplerLimitID_CPU_SHIFT, Lost: 6}, {Source: 1, Lost: 8},
	} {
		got = append(got, l.since(&other))
	}
	if diff := cmp.Diff([]uint64{0, 5, 0, 0, 2, 4, 6, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// The decoder takes exactly what the program can have sent.
func FuzzDecode(f *testing.F) {
	packet := packetOf(60, 1)
	f.Add(recordOf(sampleOf(packet, 1), packet))
	f.Add(extraRecordOf(sampleOf(packet, 1), taggedExtra(), packet))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r record
		if r.decode(raw); !r.valid {
			return
		}
		s, data := r.samplerSample, r.data
		cookie, sent := samplerLimitSAMPLE_COOKIE, data
		if r.extra != nil {
			head := *(*[extraSize]byte)(unsafe.Pointer(r.extra))
			cookie, sent = samplerLimitEXTRA_COOKIE, append(head[:], data...)
		}
		again := recordOf(*s, sent)
		if !bytes.HasPrefix(raw, again) || len(raw)-len(again) >= maxPadding {
			t.Errorf("%x was decoded to %x", raw, again)
		}
		if s.Cookie != uint16(cookie) || int(s.Length) != len(sent) || s.WireLen < uint32(len(data)) {
			t.Errorf("%+v was accepted", s)
		}
	})
}
