package ring

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A sharedRing is one CPU's ring: the first `size` bytes of data, a power of two. A record that
// begins near their end continues after them instead of wrapping around.
type sharedRing struct {
	walk
	shared  *kernel.SamplerRing
	data    []byte    // the records, and room for the rest of the last one
	bell    *doorbell // nil if another ring has it
	touched uint64    // the sum of the words loaded ahead: the compiler would remove unused loads

	tick   int64  // how long a tick of the kernel's clock is, in ns
	wakeAt uint64 // the position at which the bell rings, as the last arm has set it

	// Times are in CLOCK_MONOTONIC ns.
	checked int64  // when complete was called last
	written uint64 // the program's head at that time
	settled int64  // the last call of complete by which all earlier records were complete
}

func newSharedRing(memory []byte, size int) *sharedRing {
	shared := (*kernel.SamplerRing)(unsafe.Pointer(&memory[0]))
	return &sharedRing{
		walk:   walk{size: uint64(size), freed: &shared.Tail},
		shared: shared,
		data:   memory[kernel.SamplerLimitRING_RECORDS_AT:],
	}
}

func (r *sharedRing) fd() int {
	if r.bell == nil {
		return -1
	}
	return r.bell.fd
}

func (r *sharedRing) isGone() bool { return false } // the memory stays, for when the CPU comes back

func (r *sharedRing) close() error { return nil } // the transport releases the memory of all rings

// complete waits for a record that is being written; that takes a fraction of a microsecond. The
// program shows such a record: it sets Filling before it takes the stamp. If a hypervisor takes the
// CPU away from the program meanwhile, complete returns the last time at which no record was being
// written, for at most holdTime.
func (r *sharedRing) complete(now int64) int64 {
	before, last := r.checked, r.written
	r.checked, r.written = now, atomic.LoadUint64(&r.shared.Head)
	switch {
	case r.isSettled(r.written):
		r.settled = now
	case r.written != last: // a record that was being written at the last call is in the ring
		r.settled = before
	}
	until := max(r.settled, now-int64(holdTime)) - int64(promptTime)
	if poll := int64(atomic.LoadUint64(&r.shared.Poll)); poll != 0 && poll < until && r.isCurrent(poll) {
		return poll
	}
	return until
}

// isCurrent reports whether records may still get the stamp of a poll. The program takes a new
// stamp after a tick of the kernel's clock. isCurrent reads the same clock; the program's count of
// ticks is at most one tick behind it.
func (r *sharedRing) isCurrent(poll int64) bool {
	last, err := machine.LastTick()
	return err == nil && last <= poll+r.tick
}

// isSettled reports whether every record that was begun before this call is complete. head is the
// program's head before the call.
func (r *sharedRing) isSettled(head uint64) bool {
	for range 1000 {
		if atomic.LoadUint64(&r.shared.Filling) == 0 || atomic.LoadUint64(&r.shared.Head) != head {
			return true
		}
	}
	return false
}

func (r *sharedRing) refill() {
	if r.bell != nil {
		r.bell.clear() // before head is read: a record after that rings again
	}
	r.head = atomic.LoadUint64(&r.shared.Head)
}

// arm makes the bell ring when a part of the ring is filled, or at the next record. The program
// reads WakeAt after it has moved head. If it moves head by a plain store (inOrder), it may read
// WakeAt before that store is visible here: then the program misses the new WakeAt, and arm misses
// the record. So a new WakeAt for a record is reliable only from the second call of arm on, when
// such a store has long become visible. A missed part does no harm: the next record rings the bell,
// or Wait ends at its timeout.
func (r *sharedRing) arm(at alarm) alarm {
	wakeAt := r.tail + r.size/ringParts
	if at == onRecord {
		wakeAt = r.head + 1
	}
	isNew := wakeAt != r.wakeAt
	if isNew {
		r.wakeAt = wakeAt
		atomic.StoreUint64(&r.shared.WakeAt, wakeAt)
	}
	switch {
	case atomic.LoadUint64(&r.shared.Head) >= wakeAt:
		return never
	case isNew && at == onRecord:
		return unsure
	}
	return at
}

// record returns the record that the program has written at a position in the ring.
func (r *sharedRing) record(at uint64) *Record {
	return (*Record)(unsafe.Pointer(&r.data[at&(r.size-1)]))
}

func (r *sharedRing) stamp() (ns uint64, ok bool) {
	if r.end == r.head {
		return 0, false
	}
	return r.record(r.end).stamp(), true
}

// size is how many bytes a record takes in a shared ring.
func (r *Record) size() uint64 { return (uint64(recordSize) + uint64(r.Length) + 7) &^ 7 }

// Data returns the bytes of a packet in a shared ring. They follow the record.
func (r *Record) Data() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), recordSize)), max(r.Length, shortData))[:r.Length]
}

func (r *sharedRing) next(packets []packet.Packet, until uint64) (n int, stamp uint64, ok bool) {
	end, head := r.end, r.head
	touched := uint64(0)
	for end != head {
		rec := r.record(end)
		isSent, length := rec.isSent(), uint64(rec.Length)
		if stamp = uint64(rec.Time); !isSent {
			stamp = 0
		}
		if n == len(packets) || stamp > until || end > r.limit {
			r.end, r.touched = end, touched
			return n, stamp, true
		}
		p := &packets[n]
		n++
		size := rec.size()
		if length <= maxTouched {
			ahead := unsafe.Pointer(r.record(end + touchAhead))
			touched += *(*uint64)(ahead) + *(*uint64)(unsafe.Add(ahead, 64)) + *(*uint64)(unsafe.Add(ahead, 128))
		}
		switch {
		case size > head-end || length > uint64(MaxSnapLen):
			*p = packet.Packet{}
			end = head // it is not known where the next record begins
			continue
		case isSent:
			p.Facts, p.Source = &rec.Facts, rec.Source
			p.Data = rec.Data()
		default:
			*p = packet.Packet{Facts: &rec.Facts, Source: rec.Source}
		}
		end += size
	}
	r.end, r.touched = end, touched
	return n, 0, false
}

// shortData is the minimum capacity of a packet's Data in bytes, because pcapng.Template copies
// this much at once. The memory is always there: after its end, a ring has room for the longest
// record.
const shortData = 64

// A record begins where the previous one ends, so the CPU waits for the length of each. Loading
// memory touchAhead bytes ahead makes it wait for several records at once. After a packet longer
// than maxTouched bytes, the load would hit the middle of a record and not help.
const (
	touchAhead = 1024
	maxTouched = 192
)

// A doorbell is a BPF ring buffer of one page. The programs write to it when a ring must be read,
// because a write to shared memory does not wake a process.
type doorbell struct {
	fd                 int
	consumer, producer []byte // the pages that hold the two positions
}

func openDoorbell(m *ebpf.Map) (b *doorbell, err error) {
	b = &doorbell{fd: m.FD()}
	page := os.Getpagesize()
	if b.consumer, err = unix.Mmap(b.fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the doorbell of the rings into memory: %w", err)
	}
	if b.producer, err = unix.Mmap(b.fd, int64(page), page, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map the doorbell of the rings into memory: %w", err), b.close())
	}
	return b, nil
}

// clear empties the ring buffer, so that the next write to it makes fd readable again.
func (b *doorbell) clear() {
	position := atomic.LoadUint64((*uint64)(unsafe.Pointer(&b.producer[0])))
	consumer := (*uint64)(unsafe.Pointer(&b.consumer[0]))
	if atomic.LoadUint64(consumer) != position {
		atomic.StoreUint64(consumer, position)
	}
}

func (b *doorbell) close() error {
	errs := []error{unix.Munmap(b.consumer)}
	if b.producer != nil {
		errs = append(errs, unix.Munmap(b.producer))
	}
	return errors.Join(errs...)
}
