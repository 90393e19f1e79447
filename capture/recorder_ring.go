package capture

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A packetRing keeps packets in memory of a fixed size, in their order. One goroutine puts packets
// in, and one at a time takes them out. What is put in and taken out is counted in bytes, in all.
type packetRing struct {
	mem        []byte // its length is a multiple of 8
	head, tail atomic.Uint64
	headAt     int // where head and tail are in mem
	tailAt     int
}

// packetHead is how many bytes of a ring a packet takes besides its own, which are rounded up to a
// multiple of 8.
const packetHead = 80

func newPacketRing(size int) (*packetRing, error) {
	// All pages are made at once, so that what looks for available memory later does not see any of
	// this.
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	mem, err := unix.Mmap(-1, 0, size&^7, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("get %d bytes of memory for packets: %w", size, os.NewSyscallError("mmap", err))
	}
	return &packetRing{mem: mem}, nil
}

func (r *packetRing) close() {
	unix.Munmap(r.mem)
	r.mem = nil
}

// room is how many bytes of the ring a packet takes that has so many.
func room(bytes int) uint64 { return packetHead + uint64(bytes+7)&^7 }

// hasRoom tells whether so many bytes can be put in.
func (r *packetRing) hasRoom(bytes uint64) bool {
	return r.head.Load()+bytes-r.tail.Load() <= uint64(len(r.mem))
}

// put adds a packet, for which there must be room.
func (r *packetRing) put(p *Packet) {
	var scratch [packetHead]byte
	h := scratch[:]
	if r.headAt+packetHead <= len(r.mem) {
		h = r.mem[r.headAt : r.headAt+packetHead]
	}
	le := binary.LittleEndian
	le.PutUint64(h[72:], uint64(p.Verdict)|uint64(p.To)<<32) // the last one first: one check of the bounds
	le.PutUint32(h[0:], uint32(len(p.Data)))
	le.PutUint32(h[4:], uint32(p.WireLen))
	le.PutUint32(h[8:], uint32(p.Source))
	le.PutUint32(h[12:], p.Queue)
	le.PutUint64(h[16:], uint64(p.Time))
	le.PutUint64(h[24:], p.ID)
	le.PutUint64(h[32:], p.Dropped)
	le.PutUint64(h[40:], uint64(p.ClockSetBack))
	le.PutUint64(h[48:], uint64(p.CardTime))
	le.PutUint32(h[56:], p.Hash)
	le.PutUint32(h[60:], uint32(p.HashKind))
	le.PutUint32(h[64:], uint32(p.GSOSize))
	le.PutUint32(h[68:], p.Weight)
	if r.headAt+packetHead > len(r.mem) {
		r.write(r.headAt, h)
	}
	r.write(r.after(r.headAt, packetHead), p.Data)
	bytes := room(len(p.Data))
	r.headAt = r.after(r.headAt, int(bytes))
	r.head.Store(r.head.Load() + bytes)
}

// first reads the oldest packet, which must be there, into p. Its bytes are the ring's own or,
// where they wrap around its end, those of *wrapped.
func (r *packetRing) first(p *Packet, wrapped *[]byte) {
	var h [packetHead]byte
	r.read(r.tailAt, h[:])
	le := binary.LittleEndian
	n := int(le.Uint32(h[0:]))
	*p = Packet{
		WireLen:      int(le.Uint32(h[4:])),
		Source:       int(le.Uint32(h[8:])),
		Queue:        le.Uint32(h[12:]),
		Time:         int64(le.Uint64(h[16:])),
		ID:           le.Uint64(h[24:]),
		Dropped:      le.Uint64(h[32:]),
		ClockSetBack: time.Duration(le.Uint64(h[40:])),
		CardTime:     int64(le.Uint64(h[48:])),
		Hash:         le.Uint32(h[56:]),
		HashKind:     HashKind(le.Uint32(h[60:])),
		GSOSize:      int(le.Uint32(h[64:])),
		Weight:       le.Uint32(h[68:]),
		Verdict:      Verdict(le.Uint32(h[72:])),
		To:           Outlet(le.Uint32(h[76:])),
	}
	at := r.after(r.tailAt, packetHead)
	if at+n <= len(r.mem) {
		p.Data = r.mem[at : at+n]
		return
	}
	if cap(*wrapped) < n {
		*wrapped = make([]byte, MaxSnapLen)
	}
	p.Data = (*wrapped)[:n]
	r.read(at, p.Data)
}

// firstSource is the source of the oldest packet, which must be there.
func (r *packetRing) firstSource() int {
	// Places are multiples of 8, as is the length of the ring, so that these bytes do not wrap.
	return int(binary.LittleEndian.Uint32(r.mem[r.after(r.tailAt, 8):]))
}

// drop removes the oldest packet, which must be there.
func (r *packetRing) drop() {
	// A place is a multiple of 8, so that its first bytes do not wrap around the end.
	bytes := room(int(binary.LittleEndian.Uint32(r.mem[r.tailAt:])))
	r.tailAt = r.after(r.tailAt, int(bytes))
	r.tail.Store(r.tail.Load() + bytes)
}

// after is the place so many bytes behind another one.
func (r *packetRing) after(at, bytes int) int {
	if at += bytes; at >= len(r.mem) {
		at -= len(r.mem)
	}
	return at
}

func (r *packetRing) write(at int, b []byte) {
	n := copy(r.mem[at:], b)
	if n < len(b) {
		copy(r.mem, b[n:])
	}
}

func (r *packetRing) read(at int, b []byte) {
	n := copy(b, r.mem[at:])
	if n < len(b) {
		copy(b[n:], r.mem)
	}
}
