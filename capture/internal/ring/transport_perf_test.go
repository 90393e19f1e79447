package ring

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/capture/packet"
	"golang.org/x/sys/unix"
)

// found is what a cursor came upon.
type found int

const (
	nothing found = iota // there is no other record
	valid
	invalid
)

// advance takes the next record of a session with so many sources.
func (c *cursor) advance(sources int) (*packet.Packet, found) {
	var p [1]packet.Packet
	c.ring.begin()
	if n, _, _ := c.ring.next(p[:], math.MaxUint64); n == 0 {
		return nil, nothing
	}
	if p[0].Data == nil || int(p[0].Source) >= sources {
		return nil, invalid
	}
	return &p[0], valid
}

// find is what the cursor comes upon next.
func (c *cursor) find() found {
	_, f := c.advance(1)
	return f
}

// Records of all lengths come out as they went in, however they lie across the end of the ring, and
// the packets in the reader's hands are never overwritten.
func TestPerfRing(t *testing.T) {
	t.Parallel()
	k, c := newFakePerf(4096)
	checkRing(t, c.ring, k.sample, func() { k.put(unix.PERF_RECORD_LOST, make([]byte, 16)) })
	if k.meta.Data_tail != k.meta.Data_head {
		t.Errorf("tail %d, head %d: not everything was freed", k.meta.Data_tail, k.meta.Data_head)
	}
}

// checkRing puts records of random lengths into a ring by put, which reports whether there was
// room, and reads them now and then. between may put something else in after a record.
func checkRing(t *testing.T, r ring, put func(Record, []byte) bool, between func()) {
	t.Helper()
	var want, got [][]byte
	random := rand.New(rand.NewPCG(1, 2))
	write := func(longest int) {
		data := packetOf(1+random.IntN(longest), byte(len(want)))
		if put(NewRecord(data, 1), data) {
			want = append(want, data)
		}
		if random.IntN(3) == 0 {
			between()
		}
	}
	read := func(most int) {
		var records [4]packet.Packet
		for r.refill(); most > 0; most-- {
			r.begin()
			n, _, _ := r.next(records[:], math.MaxUint64)
			if n == 0 {
				break
			}
			for range random.IntN(min(20, most)) { // the kernel goes on writing where it may
				write(100)
			}
			for _, rec := range records[:n] {
				if rec.Data == nil {
					t.Fatal("a record is invalid")
				}
				got = append(got, bytes.Clone(rec.Data))
			}
		}
	}
	for range 5000 {
		write(1500)
		if random.IntN(2) == 0 {
			read(3)
		}
	}
	for len(got) < len(want) {
		read(1)
	}
	if len(want) < 1000 {
		t.Errorf("only %d records fitted", len(want))
	}
	if !slices.EqualFunc(want, got, bytes.Equal) {
		t.Errorf("%d packets went in, %d came out, not the same", len(want), len(got))
	}
	r.release()
}

// A broken record is counted and passed over; what follows is read.
func TestPerfRingInvalid(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	good := NewRecord(packet, 1)
	other := func(change func(*Record)) Record {
		s := good
		change(&s)
		return s
	}
	for name, payload := range map[string][]byte{
		"cookie":     rawSample(other(func(s *Record) { s.Cookie++ }), packet),
		"too long":   rawSample(other(func(s *Record) { s.Length = 100; s.WireLen = 100 }), packet),
		"too short":  rawSample(other(func(s *Record) { s.Length = 50 }), packet),
		"wire":       rawSample(other(func(s *Record) { s.WireLen = 59 }), packet),
		"source":     rawSample(other(func(s *Record) { s.Source = 1 }), packet),
		"no head":    append([]byte{20, 0, 0, 0}, make([]byte, 20)...),
		"empty":      nil,
		"raw size":   append([]byte{200, 0, 0, 0}, rawSample(good, packet)[4:]...),
		"raw size 0": append([]byte{0, 0, 0, 0}, rawSample(good, packet)[4:]...),
	} {
		t.Run(name, func(t *testing.T) {
			k, c := newFakePerf(4096)
			k.put(unix.PERF_RECORD_SAMPLE, payload)
			k.sample(good, packet)
			c.ring.refill()
			if got := []found{c.find(), c.find(), c.find()}; !slices.Equal(got, []found{invalid, valid, nothing}) {
				t.Errorf("found %v", got)
			}
		})
	}
}

// After a record that claims to be longer than what is there, the reader skips the rest of the
// round and does not crash.
func TestPerfRingCorruptSize(t *testing.T) {
	t.Parallel()
	for _, size := range []uint16{0, 7, 200, math.MaxUint16} {
		k, c := newFakePerf(4096)
		packet := packetOf(60, 1)
		k.sample(NewRecord(packet, 1), packet)
		binary.LittleEndian.PutUint16(k.data[6:], size)
		c.ring.refill()
		if got := []found{c.find(), c.find()}; !slices.Equal(got, []found{invalid, nothing}) {
			t.Errorf("size %d: found %v", size, got)
		}
		k.sample(NewRecord(packet, 2), packet)
		c.ring.refill()
		if r, _ := c.advance(1); r == nil || !bytes.Equal(r.Data, packet) {
			t.Errorf("size %d: the next record is lost", size)
		}
	}
}

// Whatever is in the shared memory, the reader comes to an end and reads nothing outside it.
func FuzzPerfRing(f *testing.F) {
	k, _ := newFakePerf(4096)
	packet := packetOf(60, 1)
	k.sample(NewRecord(packet, 1), packet)
	f.Add(k.data[:256], uint64(k.meta.Data_head))
	f.Add([]byte{9, 0, 0, 0, 0, 0, 8, 0}, uint64(8))
	f.Fuzz(func(t *testing.T, data []byte, head uint64) {
		k, c := newFakePerf(4096)
		copy(k.data, data)
		k.meta.Data_head = head % 4096 &^ 7
		if !readsSafely(t, c, 4096/8) {
			t.Fatal("it does not end")
		}
	})
}

// readsSafely reads a ring to its end, and returns false if it has more records than most.
func readsSafely(t *testing.T, c *cursor, most int) bool {
	t.Helper()
	c.ring.refill()
	for range most + 2 {
		r, found := c.advance(1)
		if found == nothing {
			return true
		}
		if found == valid && (len(r.Data) > MaxSnapLen || int(recordOf(r.Facts).Length) != len(r.Data)) {
			t.Fatalf("a packet of %d bytes, said to be %d", len(r.Data), recordOf(r.Facts).Length)
		}
	}
	return false
}
