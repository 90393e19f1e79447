package recorder

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

// A packetRing keeps packets in order, in memory of a fixed size. One goroutine adds packets, and
// one goroutine at a time removes them. head and tail are the total numbers of bytes added and
// removed.
type packetRing struct {
	mem        []byte // its length is a multiple of 8
	head, tail atomic.Uint64
	headAt     int // the offsets of head and tail in mem
	tailAt     int
}

func newPacketRing(size int) (*packetRing, error) {
	// All pages are allocated at once, so that later checks of the available memory already take
	// them into account.
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	mem, err := unix.Mmap(-1, 0, size&^7, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of memory for packets: %w", size, os.NewSyscallError("mmap", err))
	}
	return &packetRing{mem: mem}, nil
}

func (r *packetRing) close() {
	unix.Munmap(r.mem)
	r.mem = nil
}

// factsSize is the size of Facts in memory.
const factsSize = int(unsafe.Sizeof(capture.Facts{}))

// room returns how many bytes of the ring a packet of this many bytes needs: its Facts and its
// bytes, rounded up to a multiple of 8.
func room(bytes int) uint64 { return uint64(factsSize) + uint64(bytes+7)&^7 }

// hasRoom reports whether this many bytes are free.
func (r *packetRing) hasRoom(bytes uint64) bool {
	return r.head.Load()+bytes-r.tail.Load() <= uint64(len(r.mem))
}

// put adds a packet. The caller has checked that there is room.
func (r *packetRing) put(p *capture.Packet) {
	f := *p.Facts
	f.SetLen(len(p.Data))
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

// facts returns the Facts at an offset in the ring. If they wrap around to the ring's beginning,
// only their first 8 bytes may be used, which hold Source and Len. These never wrap,
// because offsets and the length of the ring are multiples of 8.
func (r *packetRing) facts(at int) *capture.Facts {
	return (*capture.Facts)(unsafe.Pointer(&r.mem[at]))
}

// A wrapped has memory for the parts of a packet that wrap around the end of a ring.
type wrapped struct {
	facts capture.Facts
	data  []byte
}

// first makes p the oldest packet; the ring must not be empty. The parts of p point into the ring
// or, if they wrap around its end, to copies in w.
func (r *packetRing) first(p *capture.Packet, w *wrapped) {
	p.Facts = r.facts(r.tailAt)
	n := r.facts(r.tailAt).Len()
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
		w.data = make([]byte, capture.MaxSnapLen)
	}
	p.Data = w.data[:n]
	r.read(at, p.Data)
}

// firstSource returns the source of the oldest packet. The ring must not be empty.
func (r *packetRing) firstSource() int { return int(r.facts(r.tailAt).Source) }

// firstTime returns the time stamp of the oldest packet. The ring must not be empty.
func (r *packetRing) firstTime() int64 {
	if r.tailAt+factsSize <= len(r.mem) {
		return r.facts(r.tailAt).Time
	}
	var f capture.Facts
	r.read(r.tailAt, unsafe.Slice((*byte)(unsafe.Pointer(&f)), factsSize))
	return f.Time
}

func (r *packetRing) isEmpty() bool { return r.head.Load() == r.tail.Load() }

// drop removes the oldest packet. The ring must not be empty.
func (r *packetRing) drop() {
	bytes := room(r.facts(r.tailAt).Len())
	r.tailAt = r.after(r.tailAt, int(bytes))
	r.tail.Store(r.tail.Load() + bytes)
}

// after returns the offset this many bytes after another offset, which may wrap.
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
