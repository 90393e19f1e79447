package capture

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
)

func rawOf(f record, packet []byte) []byte {
	head := *(*[recordSize]byte)(unsafe.Pointer(&f))
	return append(head[:], packet...)
}

func sampleOf(packet []byte, ns uint64) record {
	return record{
		cookie: uint16(kernel.SamplerLimitCOOKIE),
		length: uint32(len(packet)),
		Facts:  Facts{WireLen: uint32(len(packet)), Time: int64(ns)},
	}
}

func packetOf(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)
	}
	return b
}

// taggedOf is sampleOf with an 802.1ad tag beside the packet.
func taggedOf(packet []byte, ns uint64) record {
	f := sampleOf(packet, ns)
	f.GSOSize, f.tagProtocol, f.tag = 1448, 0xa888, 0x2005 // 0x88a8 in network order
	return f
}

// A record is struct facts of the programs: each field has the same name, place and size.
func TestFactsLayout(t *testing.T) {
	t.Parallel()
	spec, err := kernel.LoadSampler()
	must(t, err)
	var inC *btf.Struct
	must(t, spec.Types.TypeByName("facts", &inC))
	var want, got []string
	for _, m := range inC.Members {
		size, err := btf.Sizeof(m.Type)
		must(t, err)
		want = append(want, fmt.Sprintf("%s: %d bytes at %d", strings.ReplaceAll(m.Name, "_", ""), size, m.Offset.Bytes()))
	}
	inGo := reflect.TypeFor[record]()
	add := func(f reflect.StructField, at uintptr) {
		got = append(got, fmt.Sprintf("%s: %d bytes at %d", strings.ToLower(f.Name), f.Type.Size(), at+f.Offset))
	}
	for f := range inGo.Fields() {
		if !f.Anonymous {
			add(f, 0)
			continue
		}
		for fact := range f.Type.Fields() {
			add(fact, f.Offset)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || uintptr(inC.Size) != inGo.Size() {
		t.Errorf("%d bytes in C, %d in Go; C's fields, and Go's: %s", inC.Size, inGo.Size(), diff)
	}
}

// A tag beside the packet comes back to its place, and no more than the snapshot length is kept.
func TestRestoreTag(t *testing.T) {
	t.Parallel()
	whole := packetOf(60, 1)
	tagged := append(append([]byte(nil), whole[:12]...), 0x88, 0xa8, 0x20, 0x05)
	tagged = append(tagged, whole[12:]...)
	for _, snapLen := range []int{1, 11, 12, 13, 14, 16, 17, 59, 60, 63, 64, 65, 1000} {
		t.Run(fmt.Sprint(snapLen), func(t *testing.T) {
			packet := whole[:min(snapLen, len(whole))]
			f := taggedOf(packet, 1)
			f.WireLen = uint32(len(whole))
			var p Packet
			decode(&p, rawOf(f, packet))
			restoreTag(&p, snapLen)
			if want := tagged[:min(snapLen, len(tagged))]; !bytes.Equal(p.Data, want) {
				t.Errorf("%x\nwant %x", p.Data, want)
			}
			if p.WireLen != 64 || p.GSOSize != 1448 {
				t.Errorf("%d bytes on the wire, want 64; GSO size %d", p.WireLen, p.GSOSize)
			}
		})
	}
	var p Packet
	decode(&p, rawOf(sampleOf(whole, 1), whole))
	if restoreTag(&p, 1000); !bytes.Equal(p.Data, whole) || p.WireLen != 60 {
		t.Errorf("without a tag: %x, %d bytes on the wire", p.Data, p.WireLen)
	}
}

// What is in perf's rings is changed in copies, and the packets of a group stay apart.
func TestPerfRingUnchanged(t *testing.T) {
	t.Parallel()
	k, c := newFakePerf(1 << 17)
	packet := packetOf(60, 1)
	for range groupSize {
		k.sample(taggedOf(packet, 1), packet)
		k.sample(sampleOf(packet, 1), packet)
	}
	before := bytes.Clone(k.data)
	c.ring.refill()
	var packets [groupSize]Packet
	c.ring.begin()
	n, _, _ := c.ring.next(packets[:], math.MaxUint64)
	got := packets[:n]
	for i := range got {
		restoreTag(&got[i], 1000)
		got[i].ID = uint64(i)
	}
	for i := range got {
		if p := &got[i]; p.ID != uint64(i) || len(p.Data) != 64-4*(i%2) || p.Data[11] != 12 || p.Data[len(p.Data)-1] != 60 {
			t.Errorf("packet %d: id %d, %x", i, p.ID, p.Data)
		}
	}
	if len(got) < 10 || !bytes.Equal(before, k.data) {
		t.Errorf("%d packets; the ring was changed: %v", len(got), !bytes.Equal(before, k.data))
	}
}

// A damaged record whose losses are less than those before it changes nothing: the next one counts
// from the most that there were.
func TestLosses(t *testing.T) {
	t.Parallel()
	l := losses{slots: 2}
	var got []uint64
	for _, lost := range []uint64{0, 5, 5, 3, 7} {
		got = append(got, l.since(1, &Facts{Dropped: lost}))
	}
	for _, other := range []record{ // each CPU and slot has its own
		{source: 0, Facts: Facts{Dropped: 4}}, {source: 1, Facts: Facts{ID: 2 << kernel.SamplerLimitID_CPU_SHIFT, Dropped: 6}}, {source: 1, Facts: Facts{Dropped: 8}},
	} {
		got = append(got, l.since(other.source, &other.Facts))
	}
	same(t, []uint64{0, 5, 0, 0, 2, 4, 6, 1}, got)
}

// The decoder takes exactly what the program can have sent.
func FuzzDecode(f *testing.F) {
	packet := packetOf(60, 1)
	f.Add(rawOf(sampleOf(packet, 1), packet))
	f.Add(rawOf(taggedOf(packet, 1), packet))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p Packet
		if decode(&p, raw); p.Data == nil {
			return
		}
		r := recordOf(p.Facts)
		again := rawOf(*r, p.Data)
		if !bytes.HasPrefix(raw, again) || len(raw)-len(again) >= maxPadding {
			t.Errorf("%x was decoded to %x", raw, again)
		}
		if r.cookie != uint16(kernel.SamplerLimitCOOKIE) || int(r.length) != len(p.Data) || p.WireLen < r.length {
			t.Errorf("%+v was accepted", p.Facts)
		}
	})
}
