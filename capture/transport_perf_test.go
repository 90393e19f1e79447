package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A fakePerf is the other side of a ring: it writes records as perf_output_begin and its like do.
type fakePerf struct {
	meta unix.PerfEventMmapPage
	data []byte
}

// newFakePerf returns a fakePerf and a cursor on its ring.
func newFakePerf(size int) (*fakePerf, *cursor) {
	k := &fakePerf{data: make([]byte, size)}
	return k, newCursor(newPerfRing(&k.meta, k.data))
}

// found is what a cursor came upon.
type found int

const (
	nothing found = iota // there is no other record
	valid
	invalid
)

// advance takes the next record of a session with so many sources.
func (c *cursor) advance(sources int) (*Packet, found) {
	var p [1]Packet
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

// put writes one perf record, or reports false where there is no room.
func (k *fakePerf) put(kind uint32, payload []byte) bool {
	size := perfHeaderSize + len(payload)
	if size%8 != 0 {
		panic("perf records are multiples of eight bytes")
	}
	if k.meta.Data_head+uint64(size)-k.meta.Data_tail > uint64(len(k.data)) {
		return false
	}
	rec := binary.LittleEndian.AppendUint32(nil, kind)
	rec = binary.LittleEndian.AppendUint16(rec, 0)
	rec = binary.LittleEndian.AppendUint16(rec, uint16(size))
	for _, b := range append(rec, payload...) {
		k.data[k.meta.Data_head%uint64(len(k.data))] = b
		k.meta.Data_head++
	}
	return true
}

// sample writes a record of the sampling program.
func (k *fakePerf) sample(s record, packet []byte) bool {
	return k.put(unix.PERF_RECORD_SAMPLE, rawSample(s, packet))
}

// rawSample is a PERF_SAMPLE_RAW payload: its size, the record, and padding that is counted in the
// size.
func rawSample(s record, packet []byte) []byte {
	rec := rawOf(s, packet)
	for (4+len(rec))%8 != 0 {
		rec = append(rec, 0xee)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(rec))), rec...)
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
func checkRing(t *testing.T, r ring, put func(record, []byte) bool, between func()) {
	t.Helper()
	var want, got [][]byte
	random := rand.New(rand.NewPCG(1, 2))
	write := func(longest int) {
		packet := packetOf(1+random.IntN(longest), byte(len(want)))
		if put(sampleOf(packet, 1), packet) {
			want = append(want, packet)
		}
		if random.IntN(3) == 0 {
			between()
		}
	}
	read := func(most int) {
		var records [4]Packet
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
	good := sampleOf(packet, 1)
	other := func(change func(*record)) record {
		s := good
		change(&s)
		return s
	}
	for name, payload := range map[string][]byte{
		"cookie":     rawSample(other(func(s *record) { s.cookie++ }), packet),
		"too long":   rawSample(other(func(s *record) { s.length = 100; s.WireLen = 100 }), packet),
		"too short":  rawSample(other(func(s *record) { s.length = 50 }), packet),
		"wire":       rawSample(other(func(s *record) { s.WireLen = 59 }), packet),
		"source":     rawSample(other(func(s *record) { s.source = 1 }), packet),
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
		k.sample(sampleOf(packet, 1), packet)
		binary.LittleEndian.PutUint16(k.data[6:], size)
		c.ring.refill()
		if got := []found{c.find(), c.find()}; !slices.Equal(got, []found{invalid, nothing}) {
			t.Errorf("size %d: found %v", size, got)
		}
		k.sample(sampleOf(packet, 2), packet)
		c.ring.refill()
		if r, _ := c.advance(1); r == nil || !bytes.Equal(r.Data, packet) {
			t.Errorf("size %d: the next record is lost", size)
		}
	}
}

// A CPU that was offline for a while gets a new ring, because the kernel has taken the first ring's
// event away.
func TestPerfTransportCPUs(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Buffer: MinBuffer})
	if len(p.cursors) < 2 {
		t.Skip("a CPU that comes and goes needs another one beside it")
	}
	all := len(p.cursors)
	transport := newPerfTransport(ringOptions{size: MinBuffer}).(*perfTransport)
	transport.open(p.sampler.maps)
	online := transport.list()
	last := online[all-1]
	for _, step := range []struct {
		online []int
		period uint64 // of the last CPU
		want   int    // rings that are made
	}{
		{online, 1, all}, {online, 1, 0},
		{online[:all-1], 1, 1}, // at once, because the CPU has not really gone
		{online[:all-1], 1, 0}, {online, 1, 0},
		{online, 2, 1}, {online, 2, 0}, // it was offline between two looks
	} {
		transport.list = func() []int { return step.online }
		transport.period = func(cpu int) uint64 {
			if cpu == last {
				return step.period
			}
			return 1
		}
		if made := transport.served != nil; made && (transport.ringOf(last) == 0) != (step.period == 2 && step.want == 1) {
			t.Errorf("in the period %d the last CPU has ring %d", step.period, transport.ringOf(last))
		}
		rings, err := transport.rings()
		for _, r := range rings {
			p.cursors = append(p.cursors, newCursor(r))
		}
		if err != nil || len(rings) != step.want {
			t.Errorf("%d rings were made with the CPUs %v online, want %d; %v", len(rings), step.online, step.want, err)
		}
	}
	// The rings that the kernel does not write to any more are given back.
	m := merge{cursors: p.cursors}
	if err := errors.Join(m.drop()...); len(m.cursors) != 2*all || err != nil {
		t.Errorf("%d rings are there, want those of two transports for %d CPUs; %v", len(m.cursors), all, err)
	}
	p.cursors = m.cursors
	// The program uses the rings that were made last, and each CPU has one.
	p.run(0, packetOf(60, 0), 10)
	if samples, _ := p.samples(); len(samples) != 10 {
		t.Errorf("%d of 10 records were found", len(samples))
	}
}

// Whatever is in the shared memory, the reader comes to an end and reads nothing outside it.
func FuzzPerfRing(f *testing.F) {
	k, _ := newFakePerf(4096)
	packet := packetOf(60, 1)
	k.sample(sampleOf(packet, 1), packet)
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
		if found == valid && (len(r.Data) > MaxSnapLen || int(recordOf(r.Facts).length) != len(r.Data)) {
			t.Fatalf("a packet of %d bytes, said to be %d", len(r.Data), recordOf(r.Facts).length)
		}
	}
	return false
}
