package capture

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

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

// room is how many bytes of the ring a packet takes that has so many: its Facts, and its own,
// rounded up to a multiple of 8.
func room(bytes int) uint64 { return uint64(factsSize) + uint64(bytes+7)&^7 }

// hasRoom tells whether so many bytes can be put in.
func (r *packetRing) hasRoom(bytes uint64) bool {
	return r.head.Load()+bytes-r.tail.Load() <= uint64(len(r.mem))
}

// put adds a packet, for which there must be room.
func (r *packetRing) put(p *Packet) {
	f := *p.Facts
	f.length = uint32(len(p.Data))
	if r.headAt+factsSize <= len(r.mem) {
		*r.facts(r.headAt) = f
	} else {
		r.write(r.headAt, unsafe.Slice((*byte)(unsafe.Pointer(&f)), factsSize))
	}
	r.write(r.after(r.headAt, factsSize), p.Data)
	bytes := room(len(p.Data))
	r.headAt = r.after(r.headAt, int(bytes))
	r.head.Store(r.head.Load() + bytes)
}

// facts returns the Facts at a place in the ring. Where they go on at the ring's beginning, only
// their first 8 bytes may be used, which have the source and the length: places are multiples of 8,
// and so is the length of the ring.
func (r *packetRing) facts(at int) *Facts { return (*Facts)(unsafe.Pointer(&r.mem[at])) }

// A wrapped has memory for the parts of a packet that lie around the end of a ring.
type wrapped struct {
	facts Facts
	data  []byte
}

// first makes p the oldest packet, which must be there. Its parts are the ring's own or, where they
// wrap around its end, those of w.
func (r *packetRing) first(p *Packet, w *wrapped) {
	p.Facts = r.facts(r.tailAt)
	n := int(p.length)
	if r.tailAt+factsSize > len(r.mem) {
		p.Facts = &w.facts
		r.read(r.tailAt, unsafe.Slice((*byte)(unsafe.Pointer(p.Facts)), factsSize))
	}
	at := r.after(r.tailAt, factsSize)
	if at+n <= len(r.mem) {
		p.Data = r.mem[at : at+n]
		return
	}
	if cap(w.data) < n {
		w.data = make([]byte, MaxSnapLen)
	}
	p.Data = w.data[:n]
	r.read(at, p.Data)
}

// firstSource is the source of the oldest packet, which must be there.
func (r *packetRing) firstSource() int { return int(r.facts(r.tailAt).Source) }

// firstTime is the stamp of the oldest packet, which must be there.
func (r *packetRing) firstTime() int64 {
	if r.tailAt+factsSize <= len(r.mem) {
		return r.facts(r.tailAt).Time
	}
	var f Facts
	r.read(r.tailAt, unsafe.Slice((*byte)(unsafe.Pointer(&f)), factsSize))
	return f.Time
}

func (r *packetRing) isEmpty() bool { return r.head.Load() == r.tail.Load() }

// drop removes the oldest packet, which must be there.
func (r *packetRing) drop() {
	bytes := room(int(r.facts(r.tailAt).length))
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
