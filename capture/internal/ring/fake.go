package ring

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// This file has rings for the tests of this and other packages. No program writes to them.

// NewRecord returns the record of a packet as a program sends it. ns is its stamp, in
// CLOCK_MONOTONIC.
func NewRecord(data []byte, ns uint64) Record {
	return Record{
		Cookie: uint16(kernel.SamplerLimitCOOKIE),
		Length: uint32(len(data)),
		Facts:  packet.Facts{WireLen: uint32(len(data)), Time: int64(ns)},
	}
}

// Raw returns the record and its packet, as they are in a ring.
func (r Record) Raw(data []byte) []byte {
	head := *(*[recordSize]byte)(unsafe.Pointer(&r))
	return append(head[:], data...)
}

// Lists is a transport with prepared results: the first search for rings finds Looks[0], the next
// one Looks[1].
type Lists struct {
	Looks  []Look
	Number uint32 // the result of ringOf for every CPU
	Refuse int    // how many calls of Open will fail, with Err
	Err    error
}

// A Look is the result of one search for rings.
type Look struct {
	Rings []*List
	Err   error
}

// NewLists returns a transport whose first look finds these rings.
func NewLists(rings ...*List) *Lists { return &Lists{Looks: []Look{{Rings: rings}}, Number: 1} }

// New is the package's New, for this transport.
func (l *Lists) New(o Options) *Set { return newSet(o, l) }

func (l *Lists) prepare(*ebpf.CollectionSpec, bool) error { return nil }
func (l *Lists) ringOf(int) uint32                        { return l.Number }
func (l *Lists) close() error                             { return nil }

func (l *Lists) open(map[string]*ebpf.Map) error {
	if l.Refuse--; l.Refuse >= 0 {
		return l.Err
	}
	return nil
}

func (l *Lists) rings() (rings []ring, err error) {
	if len(l.Looks) == 0 {
		return nil, nil
	}
	look := l.Looks[0]
	l.Looks = l.Looks[1:]
	for _, r := range look.Rings {
		rings = append(rings, r)
	}
	return rings, look.Err
}

// A List is a ring that holds records in a slice.
type List struct {
	Records [][]byte
	Gone    bool // its CPU went offline
	Closed  bool

	// Armed, if not nil, is called whenever the ring is armed, with the argument of Set.Arm. It
	// returns true if a record came at that moment, which will not make the ring readable.
	Armed func(atRecord bool) (missed bool)
}

func (r *List) complete(now int64) int64 { return now - int64(SettleTime) }
func (r *List) isHalfFull() bool         { return false }
func (r *List) filled() float64          { return 0 }

func (r *List) refill()  {}
func (r *List) release() {}

func (r *List) begin() {}

func (r *List) stamp() (ns uint64, ok bool) {
	if len(r.Records) == 0 {
		return 0, false
	}
	var p packet.Packet
	if decode(&p, r.Records[0]); p.Data == nil {
		return 0, true // an invalid record is due at once
	}
	return uint64(p.Time), true
}

func (r *List) next(packets []packet.Packet, until uint64) (n int, stamp uint64, ok bool) {
	for ; ; n++ {
		if stamp, ok = r.stamp(); !ok || stamp > until || n == len(packets) {
			return n, stamp, ok
		}
		decode(&packets[n], r.Records[0])
		r.Records = r.Records[1:]
	}
}

func (r *List) arm(at alarm) alarm {
	if r.Armed != nil && r.Armed(at == onRecord) {
		return unsure
	}
	return onPart
}

func (r *List) fd() int      { return -1 }
func (r *List) isGone() bool { return r.Gone }

func (r *List) close() error {
	r.Closed = true
	return nil
}

// A Memory is a Set of rings in memory of this process, which a test fills before it reads them.
type Memory struct {
	*Set
	programs []*fakeProgram
	perf     []*fakePerf
}

// NewMemory returns empty rings of `size` bytes. shared and perf are how many there are of each
// kind.
func NewMemory(size, shared, perf int) *Memory {
	m := &Memory{Set: new(Set)}
	for range shared {
		k, c := newFakeProgram(size)
		m.programs, m.cursors = append(m.programs, k), append(m.cursors, c)
	}
	for range perf {
		k, c := newFakePerf(size)
		m.perf, m.cursors = append(m.perf, k), append(m.cursors, c)
	}
	return m
}

// Put writes a record into a ring. The shared rings have the first numbers, and perf's the next. It
// returns false if there is no room.
func (m *Memory) Put(ring int, r Record, data []byte) bool {
	if ring < len(m.programs) {
		return m.programs[ring].sample(r, data)
	}
	return m.perf[ring-len(m.programs)].sample(r, data)
}

// Rewind makes all records that were put available again. The first call must come before any
// record is read.
func (m *Memory) Rewind() {
	for _, k := range m.programs { // perf's rings are only read
		if k.full == nil {
			k.full = bytes.Clone(k.data)
		}
		copy(k.data, k.full) // the reader changes records in place
	}
	for _, c := range m.cursors {
		var w *walk
		switch r := c.ring.(type) {
		case *sharedRing:
			w = &r.walk
		case *perfRing:
			w = &r.walk
		}
		w.limit, w.end, w.tail, w.head, *w.freed = 0, 0, 0, 0, 0
	}
	m.Gather(math.MaxUint64)
}

// A fakeProgram writes records into a shared ring, as bpf/sampler.c does.
type fakeProgram struct {
	shared *kernel.SamplerRing
	data   []byte
	size   uint64
	full   []byte // the records as they were put, for Rewind; nil before its first call
}

// newFakeProgram returns a fakeProgram and a cursor on its ring.
func newFakeProgram(size int) (*fakeProgram, *cursor) {
	words := make([]uint64, (int(kernel.SamplerLimitRING_RECORDS_AT)+size+maxRingRecord)/8)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	r := newSharedRing(memory, size)
	return &fakeProgram{shared: r.shared, data: r.data, size: r.size}, newCursor(r)
}

// put writes a record. It returns false if there is no room.
func (k *fakeProgram) put(record []byte) bool {
	padded := uint64(len(record)+7) &^ 7
	if k.shared.Head+padded-k.shared.Tail > k.size {
		return false
	}
	copy(k.data[k.shared.Head&(k.size-1):], record)
	k.shared.Head += padded
	return true
}

func (k *fakeProgram) sample(r Record, data []byte) bool { return k.put(r.Raw(data)) }

// A fakePerf writes records into a perf ring in the way of the kernel's perf_output_begin.
type fakePerf struct {
	meta unix.PerfEventMmapPage
	data []byte
}

// newFakePerf returns a fakePerf and a cursor on its ring.
func newFakePerf(size int) (*fakePerf, *cursor) {
	k := &fakePerf{data: make([]byte, size)}
	return k, newCursor(newPerfRing(&k.meta, k.data))
}

// put writes one perf record. It returns false if there is no room.
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
func (k *fakePerf) sample(r Record, data []byte) bool {
	return k.put(unix.PERF_RECORD_SAMPLE, rawSample(r, data))
}

// rawSample is a PERF_SAMPLE_RAW payload: its size, the record, and padding that is counted in the
// size.
func rawSample(r Record, data []byte) []byte {
	rec := r.Raw(data)
	for (4+len(rec))%8 != 0 {
		rec = append(rec, 0xee)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(rec))), rec...)
}

// AddKind registers a kind of transport whose rings have at most MinSize bytes; remove unregisters
// it.
func AddKind(name, about string, maxSnapLen int, lists *Lists, fit func(*Options) error) (added Transport, remove func()) {
	before := transportKinds
	transportKinds = append(before[:len(before):len(before)], &transportKind{
		name: name, about: about, maxSnapLen: maxSnapLen, maxRing: MinSize, lighter: TransportPerf,
		fit: fit, memory: perfRings, open: func(Options) transport { return lists },
	})
	return Transport(len(before)), func() { transportKinds = before }
}
