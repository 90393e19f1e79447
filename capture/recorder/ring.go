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
// one goroutine at a time removes them.
type packetRing struct {
	mem            []byte        // its length is a multiple of 8
	head, tail     atomic.Uint64 // positions: the total numbers of bytes added and removed
	headAt, tailAt int           // their offsets in mem
	copied         header        // memory for firstTime
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

// A header is stored in the ring before a packet's bytes.
type header struct {
	length uint32 // of the bytes that follow
	source uint16
	facts  capture.Facts
}

const headerSize = int(unsafe.Sizeof(header{}))

// room returns how many bytes of the ring a packet of this many bytes needs: those of the header,
// and its own rounded up to a multiple of 8.
func room(bytes int) uint64 { return uint64(headerSize) + uint64(bytes+7)&^7 }

// hasRoom reports whether this many bytes are free.
func (r *packetRing) hasRoom(bytes uint64) bool {
	return r.head.Load()+bytes-r.tail.Load() <= uint64(len(r.mem))
}

// put adds a packet. The caller has checked that there is room.
func (r *packetRing) put(p *capture.Packet) {
	h := header{uint32(len(p.Data)), p.Source, *p.Facts}
	if r.headAt+headerSize <= len(r.mem) {
		*r.header(r.headAt) = h
	} else {
		r.write(r.headAt, unsafe.Slice((*byte)(unsafe.Pointer(&h)), headerSize))
	}
	r.write(r.after(r.headAt, headerSize), p.Data)
	bytes := room(len(p.Data))
	r.headAt = r.after(r.headAt, int(bytes))
	r.head.Store(r.head.Load() + bytes)
}

// header returns the header at an offset in the ring. If the header wraps around to the ring's
// beginning, only its first 8 bytes may be used: the length and the source. They never wrap around,
// because all offsets and the length of the ring are multiples of 8.
func (r *packetRing) header(at int) *header {
	return (*header)(unsafe.Pointer(&r.mem[at]))
}

// A wrapped has memory for the parts of a packet that wrap around the end of a ring.
type wrapped struct {
	header header
	data   []byte
}

// first makes p the oldest packet; the ring must not be empty. The parts of p point into the ring
// or, if they wrap around its end, to copies in w.
func (r *packetRing) first(p *capture.Packet, w *wrapped) {
	h := r.wholeHeader(r.tailAt, &w.header)
	n := int(h.length)
	p.Facts, p.Source = &h.facts, h.source
	at := r.after(r.tailAt, headerSize)
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
func (r *packetRing) firstSource() int { return int(r.header(r.tailAt).source) }

// firstTime returns the time stamp of the oldest packet. The ring must not be empty. The goroutine
// that adds packets calls it, while no other one removes them.
func (r *packetRing) firstTime() int64 {
	return r.wholeHeader(r.tailAt, &r.copied).facts.Time
}

// wholeHeader returns the header at an offset in the ring or, if it wraps around, a copy in `to`.
func (r *packetRing) wholeHeader(at int, to *header) *header {
	if at+headerSize <= len(r.mem) {
		return r.header(at)
	}
	r.read(at, unsafe.Slice((*byte)(unsafe.Pointer(to)), headerSize))
	return to
}

func (r *packetRing) isEmpty() bool { return r.head.Load() == r.tail.Load() }

// drop removes the oldest packet. The ring must not be empty.
func (r *packetRing) drop() {
	bytes := room(int(r.header(r.tailAt).length))
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

// write copies b into the ring at an offset, and wraps around at the end.
func (r *packetRing) write(at int, b []byte) {
	n := copy(r.mem[at:], b)
	if n < len(b) {
		copy(r.mem, b[n:])
	}
}

// read fills b from the ring at an offset, and wraps around at the end.
func (r *packetRing) read(at int, b []byte) {
	n := copy(b, r.mem[at:])
	if n < len(b) {
		copy(b[n:], r.mem)
	}
}
