package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ring is one CPU's perf ring buffer, read in place. The kernel writes records between tail and
// head, both counted in bytes since the beginning and never wrapped; moving the tail frees them.
//
// The cursor stands on one sample: rec and packet. Its bytes, and those of the sample before, stay
// valid until release.
type ring struct {
	fd   int
	mem  []byte                  // as mapped: the meta page, then data
	meta *unix.PerfEventMmapPage // head and tail, shared with the kernel
	data []byte                  // a power of two long
	wrap []byte                  // for a record that continues at the beginning of data

	rec    samplerSample
	packet []byte
	start  uint64 // where the cursor's record begins
	next   uint64 // where the record after it begins
	head   uint64 // what refill found written
	tail   uint64 // what release freed

	lost []uint64 // each source's samplerSample.Lost, last seen
}

// A ring wakes its poller each time when another one of so many parts of it has been filled.
const ringParts = 4

// What advance found.
type found int

const (
	nothing found = iota // the cursor is behind the last record
	valid
	invalid // the record fails the check of cookie and length
)

// openRing makes the ring of one CPU. The kernel wakes the poller of fd after `watermark` bytes.
func openRing(cpu, size, watermark, sources int) (*ring, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_RAW,
		Bits:        unix.PerfBitWatermark,
		Wakeup:      uint32(watermark),
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open a perf event on CPU %d: %w", cpu, err)
	}
	mem, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: more locked memory than this user may have: ask for a smaller buffer, or grant CAP_IPC_LOCK", err)
		}
		return nil, fmt.Errorf("map a ring of %d KiB for CPU %d: %w", size>>10, cpu, err)
	}
	r := newRing((*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])), mem[os.Getpagesize():], sources)
	r.fd, r.mem = fd, mem
	return r, nil
}

func newRing(meta *unix.PerfEventMmapPage, data []byte, sources int) *ring {
	return &ring{meta: meta, data: data, lost: make([]uint64, sources)}
}

// ringSize rounds up to what perf accepts: a power of two of pages.
func ringSize(n int) int {
	return 1 << bits.Len(uint(max(n, os.Getpagesize())-1))
}

func (r *ring) close() error {
	return errors.Join(unix.Munmap(r.mem), unix.Close(r.fd))
}

// refill looks for what the kernel has written since.
func (r *ring) refill() { r.head = atomic.LoadUint64(&r.meta.Data_head) }

// release gives everything before the cursor's record back to the kernel.
func (r *ring) release() {
	if r.tail != r.start {
		r.tail = r.start
		atomic.StoreUint64(&r.meta.Data_tail, r.tail)
	}
}

// isFilling tells that the ring may be full before it wakes anybody again.
func (r *ring) isFilling() bool { return r.head-r.tail > uint64(len(r.data)/ringParts) }

// idle tells that the cursor is behind the last record that refill found.
func (r *ring) idle() bool { return r.start == r.next }

// advance moves the cursor to the next record of the sampling program.
func (r *ring) advance() found {
	// The record that the cursor leaves is in the caller's hands now; those before it are not.
	if r.start-r.tail > uint64(len(r.data)/8) {
		r.release()
	}
	for {
		r.start = r.next
		if r.start == r.head {
			return nothing
		}
		// Records are multiples of eight bytes: a header never continues at the beginning.
		at := r.start & uint64(len(r.data)-1)
		kind := binary.LittleEndian.Uint32(r.data[at:])
		size := uint64(binary.LittleEndian.Uint16(r.data[at+6:]))
		if size < perfHeaderSize || size > r.head-r.start {
			r.next = r.head // no telling where the next record begins
			return invalid
		}
		r.next = r.start + size
		if kind != unix.PERF_RECORD_SAMPLE {
			continue // PERF_RECORD_LOST comes late or never: the program counts what is lost
		}
		raw := r.bytes(at, size)[perfHeaderSize:]
		if len(raw) < 4 || uint64(binary.LittleEndian.Uint32(raw)) != uint64(len(raw)-4) {
			return invalid
		}
		var ok bool
		if r.packet, ok = decode(raw[4:], &r.rec); !ok || int(r.rec.Source) >= len(r.lost) {
			return invalid
		}
		return valid
	}
}

const perfHeaderSize = 8

func (r *ring) bytes(at, size uint64) []byte {
	if at+size <= uint64(len(r.data)) {
		return r.data[at : at+size]
	}
	r.wrap = append(r.wrap[:0], r.data[at:]...)
	r.wrap = append(r.wrap, r.data[:size-uint64(len(r.wrap))]...)
	return r.wrap
}

// dropped returns how many packets of the cursor's source were lost on this CPU since the sample before.
func (r *ring) dropped() uint64 {
	before := r.lost[r.rec.Source]
	r.lost[r.rec.Source] = r.rec.Lost
	return r.rec.Lost - before
}
