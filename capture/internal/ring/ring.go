package ring

import (
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A transport is one kind of Transport for one session. Each kind is one file, transport_NAME.go,
// with a function of the type newTransport. Each method is called once, in this order, except
// rings and ringOf. After an error only close is called.
type transport interface {
	// prepare sets the sizes of the transport's maps, and the constants that the programs need,
	// before maps and programs are created. fragments reports whether a program may be unable to
	// copy all packets: see Source.InFragments.
	prepare(spec *ebpf.CollectionSpec, fragments bool) error
	// open gets the created maps.
	open(maps map[string]*ebpf.Map) error
	// rings creates a ring for every CPU that is online and has no ring, and makes the programs use
	// it. It is called when the session opens, and by the reader about once a second, because CPUs
	// may come online. The caller closes the returned rings, even after an error. An error is about
	// one CPU: the next call continues with the others.
	rings() ([]ring, error)
	// ringOf returns the number of the ring that the programs use on a CPU. A CPU that gets another
	// ring gets another number; 0 = no ring. Any goroutine may call it once open has returned.
	ringOf(cpu int) uint32
	// close releases the resources that the rings share. It is called after the rings are closed.
	close() error
}

type newTransport func(r Options) transport

// The ages at which the order of records is final. A program may be delayed between taking its time
// stamp and sending its record, so younger records are held back until older ones of other CPUs
// have arrived.
const (
	// SettleTime is the age for rings that do not show whether a record is being written. A packet
	// that was delayed longer gets the time of the previous packet of the session.
	SettleTime = time.Millisecond
	// promptTime is the age if the ring shows that no record is being written. It is longer than a
	// CPU needs to make its stores visible to others, and than the clocks of CPUs differ.
	promptTime = 10 * time.Microsecond
	// holdTime is the age if the ring shows that a record is being written: a hypervisor may take
	// the CPU away from the program for that time.
	holdTime = 250 * time.Millisecond
)

// A ring has the records of one CPU, and is read by one goroutine. refill finds the records that
// were written since the last call, and next returns many of them at a time.
type ring interface {
	// complete returns the stamp up to which the next refill will find all records. now is the time
	// of the call; both are in CLOCK_MONOTONIC ns.
	complete(now int64) int64
	// filled is the share of the ring that was in use at the last refill.
	filled() float64
	// isHalfFull reports whether more than half of the ring was in use at the last refill.
	isHalfFull() bool
	// refill finds the records that were written since the last call.
	refill()
	// stamp returns the stamp of the next record, in CLOCK_MONOTONIC ns; false if there is none. A
	// record that no program can have sent has the stamp 0.
	stamp() (ns uint64, ok bool)
	// begin begins a group. If the records that next has returned take much of the ring, begin lets
	// the kernel overwrite them.
	begin()
	// next decodes the next records whose stamps are not after until, and returns how many, and the
	// results of stamp for the record after them. The packets refer to memory of the ring, in which
	// their Facts may be changed, and stay valid until begin or release is called. A record that no
	// program can have sent has no Data. A group has at most about groupBytes bytes of a ring:
	// after these, next returns no more records.
	next(packets []packet.Packet, until uint64) (n int, stamp uint64, ok bool)
	// release lets the kernel overwrite all records that next has returned.
	release()
	// arm makes the ring readable later: when it fills up or, if at is onRecord and the kind of
	// ring supports that, at the next record. It returns the alarm that the reader can rely on.
	arm(at alarm) alarm
	// fd becomes readable at the alarm of arm. It is -1 if another ring has the fd for both, or if
	// there is none.
	fd() int
	// isGone reports whether the kernel has stopped writing, because the CPU went offline.
	isGone() bool
	close() error
}

// An alarm is the event at which a ring becomes readable.
type alarm int

const (
	never    alarm = iota // none: the ring may become full before it becomes readable
	unsure                // at the next record, but a record that comes while arm runs may be missed
	onPart                // when one of ringParts parts is filled
	onRecord              // at the next record
)

// ringParts is the number of parts of a ring: it becomes readable when another part is filled.
const ringParts = 4

// A walk is the reader's position in a ring. The records are between tail and head. Positions are
// bytes since the beginning of the session, and do not wrap around. Moving the tail frees records.
type walk struct {
	size  uint64  // bytes of the ring
	freed *uint64 // the copy of tail that the kernel reads

	limit uint64 // records of this group begin at or before this position
	end   uint64 // end of the records that next has returned
	head  uint64 // end of the records that refill has found
	tail  uint64 // end of the records that release has freed
}

func (w *walk) release() {
	if w.tail != w.end {
		w.tail = w.end
		atomic.StoreUint64(w.freed, w.tail)
	}
}

func (w *walk) filled() float64 { return float64(w.head-w.tail) / float64(w.size) }

func (w *walk) isHalfFull() bool { return w.head-w.tail > w.size/2 }

func (w *walk) begin() {
	if w.end-w.tail > w.share() {
		w.release()
	}
	w.limit = w.end + min(w.share(), groupBytes)
}

// share is how many bytes that were read may stay in the ring before they are released: few, so
// that most of the ring is free for the kernel.
func (w *walk) share() uint64 { return w.size / 8 }
