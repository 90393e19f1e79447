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
	// before anything is created. fragments reports whether there may be programs that cannot copy
	// all packets by themselves: see Source.InFragments.
	prepare(spec *ebpf.CollectionSpec, fragments bool) error
	// open gets the created maps.
	open(maps map[string]*ebpf.Map) error
	// rings creates a ring for every CPU that is online and has no ring, and hands it to the
	// programs. It is called when the session opens, and by the reader about once a second, because
	// CPUs may come online. The caller closes the returned rings, even if there is an error. An
	// error is about one CPU: the next call continues with the others.
	rings() ([]ring, error)
	// ringOf returns a number for the ring that the programs use on a CPU. Each ring that the CPU
	// has had has another number; 0 = no ring. Any goroutine may call it once open has returned.
	ringOf(cpu int) uint32
	// close releases the resources that the rings share. It is called after the rings are closed.
	close() error
}

type newTransport func(r Options) transport

// How far the records of a ring are complete.
const (
	// A program may be delayed between taking its time stamp and sending its record. A record is
	// handed over only when it is older than this, so that earlier records of other CPUs have
	// arrived. A packet that was delayed longer gets the time of the previous packet of the
	// session.
	SettleTime = time.Millisecond
	// TransportRing shows when no record is being written. Then only records younger than this are
	// held back. It is longer than a CPU needs to make its stores visible to others, and than the
	// clocks of CPUs differ.
	promptTime = 10 * time.Microsecond
	// Where a ring shows that a record is being written, younger records are held back at most this
	// long: a hypervisor may take the CPU away from a program for that time.
	holdTime = 250 * time.Millisecond
)

// A ring holds the records of one CPU, and is read by one goroutine. The kernel writes after the
// last record. refill finds the new records, and next walks along them, many records at a time.
type ring interface {
	// complete returns the stamp up to which the next refill will find all records. now is the time
	// of the call; both are in CLOCK_MONOTONIC ns.
	complete(now int64) int64
	// filled is the share of the ring that was in use at the last refill.
	filled() float64
	// isHalfFull reports whether more than half of the ring was in use at the last refill.
	isHalfFull() bool
	// refill finds the records that the kernel has written since the last call.
	refill()
	// stamp returns the stamp of the next record, in CLOCK_MONOTONIC ns; false if there is none. A
	// record that no program can have sent has the stamp 0.
	stamp() (ns uint64, ok bool)
	// begin begins a group. If next has returned many records since the last release, begin lets
	// the kernel overwrite them.
	begin()
	// next decodes the next records into the elements of a slice while their stamps are not after
	// until. It returns how many, and the results of stamp for the record after them. They refer to
	// memory of the ring, in which their Facts may be changed, and stay valid until begin or
	// release is called. A record that no program can have sent has no Data. Once the group has
	// many bytes, next returns no more records.
	next(packets []packet.Packet, until uint64) (n int, stamp uint64, ok bool)
	// release lets the kernel overwrite all records that next has returned.
	release()
	// arm makes the ring readable later: when it fills up or, if at is onRecord and the kind of
	// ring supports that, at the next record. It returns the alarm that the reader can rely on.
	arm(at alarm) alarm
	// fd is readable when the alarm of arm has come. It is -1 if another ring's fd stands for this
	// one, too, or if there is none.
	fd() int
	// isGone reports whether the kernel has stopped writing, because the CPU went offline.
	isGone() bool
	close() error
}

// An alarm is the event at which a ring becomes readable.
type alarm int

const (
	never    alarm = iota // perhaps only when it is full
	unsure                // at the next record, but a record that comes while arm runs may be missed
	onPart                // when one of ringParts parts is filled
	onRecord              // at the next record
)

// ringParts is into how many parts a ring is divided: it becomes readable when one of them is
// filled.
const ringParts = 4

// A walk is a reader's position in a ring. The kernel writes records between tail and head, both
// counted in bytes since the beginning and never wrapped; moving the tail frees them.
type walk struct {
	size  uint64  // bytes of the ring
	freed *uint64 // where the kernel sees the tail

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

// share is how many bytes that were read may stay in the ring before they are released, so that
// most of it is free for the kernel.
func (w *walk) share() uint64 { return w.size / 8 }
