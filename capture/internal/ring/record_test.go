package ring

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

func packetOf(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)
	}
	return b
}

// taggedOf is sampleOf with an 802.1ad tag beside the packet.
func taggedOf(packet []byte, ns uint64) Record {
	f := NewRecord(packet, ns)
	f.GSOSize, f.TagProtocol, f.Tag = 1448, 0xa888, 0x2005 // 0x88a8 in network order
	return f
}

// A record is struct facts of the programs: each field has the same name, place and size.
func TestFactsLayout(t *testing.T) {
	t.Parallel()
	spec, err := kernel.LoadSampler()
	testnet.Must(t, err)
	var inC *btf.Struct
	testnet.Must(t, spec.Types.TypeByName("facts", &inC))
	var want, got []string
	for _, m := range inC.Members {
		size, err := btf.Sizeof(m.Type)
		testnet.Must(t, err)
		name, at := strings.ReplaceAll(m.Name, "_", ""), m.Offset.Bytes()
		if name == "gsosize" { // KIND_SHIFT
			size = 2
		}
		want = append(want, fmt.Sprintf("%s: %d bytes at %d", name, size, at))
		if name == "gsosize" {
			want = append(want, fmt.Sprintf("verdictkind: %d bytes at %d", size, at+2))
		}
	}
	inGo := reflect.TypeFor[Record]()
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
			data := whole[:min(snapLen, len(whole))]
			f := taggedOf(data, 1)
			f.WireLen = uint32(len(whole))
			var p packet.Packet
			decode(&p, f.Raw(data))
			RestoreTag(&p, snapLen)
			if want := tagged[:min(snapLen, len(tagged))]; !bytes.Equal(p.Data, want) {
				t.Errorf("%x\nwant %x", p.Data, want)
			}
			if p.WireLen != 64 || p.GSOSize != 1448 {
				t.Errorf("%d bytes on the wire, want 64; GSO size %d", p.WireLen, p.GSOSize)
			}
		})
	}
	var p packet.Packet
	decode(&p, NewRecord(whole, 1).Raw(whole))
	if RestoreTag(&p, 1000); !bytes.Equal(p.Data, whole) || p.WireLen != 60 {
		t.Errorf("without a tag: %x, %d bytes on the wire", p.Data, p.WireLen)
	}
}

// What is in perf's rings is changed in copies, and the packets of a group stay apart.
func TestPerfRingUnchanged(t *testing.T) {
	t.Parallel()
	k, c := newFakePerf(1 << 17)
	data := packetOf(60, 1)
	for range GroupSize {
		k.sample(taggedOf(data, 1), data)
		k.sample(NewRecord(data, 1), data)
	}
	before := bytes.Clone(k.data)
	c.ring.refill()
	var packets [GroupSize]packet.Packet
	c.ring.begin()
	n, _, _ := c.ring.next(packets[:], math.MaxUint64)
	got := packets[:n]
	for i := range got {
		RestoreTag(&got[i], 1000)
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
	l := Losses{Slots: 2}
	var got []uint64
	for _, lost := range []uint64{0, 5, 5, 3, 7} {
		got = append(got, l.Since(1, &packet.Facts{Dropped: lost}))
	}
	for _, other := range []Record{ // each CPU and slot has its own
		{Source: 0, Facts: packet.Facts{Dropped: 4}}, {Source: 1, Facts: packet.Facts{ID: 2 << kernel.SamplerLimitID_CPU_SHIFT, Dropped: 6}}, {Source: 1, Facts: packet.Facts{Dropped: 8}},
	} {
		got = append(got, l.Since(other.Source, &other.Facts))
	}
	if want := []uint64{0, 5, 0, 0, 2, 4, 6, 1}; !slices.Equal(got, want) {
		t.Errorf("lost %v, want %v", got, want)
	}
}

// The decoder takes exactly what the program can have sent.
func FuzzDecode(f *testing.F) {
	data := packetOf(60, 1)
	f.Add(NewRecord(data, 1).Raw(data))
	f.Add(taggedOf(data, 1).Raw(data))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p packet.Packet
		if decode(&p, raw); p.Data == nil {
			return
		}
		r := recordOf(p.Facts)
		again := r.Raw(p.Data)
		if !bytes.HasPrefix(raw, again) || len(raw)-len(again) >= maxPadding {
			t.Errorf("%x was decoded to %x", raw, again)
		}
		if r.Cookie != uint16(kernel.SamplerLimitCOOKIE) || int(r.Length) != len(p.Data) || p.WireLen < r.Length {
			t.Errorf("%+v was accepted", p.Facts)
		}
	})
}
