package capture

import (
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

// A Transport says how packets come from the kernel to this process.
type Transport int

const (
	// TransportDefault is TransportPerf. If this process may not use perf's rings, it is
	// TransportRing, with a Notice.
	TransportDefault Transport = iota
	// TransportPerf sends packets through perf's rings, by bpf_perf_event_output.
	TransportPerf
	// TransportRing makes the programs write into memory that they share with this process. It
	// delays the traffic by a fraction of what perf does, and needs none of perf's privileges.
	TransportRing
	// TransportAuto is TransportRing if the kernel has the memory for it, and otherwise
	// TransportDefault. Session.Options tells which one was chosen.
	TransportAuto
)

var transportNames = [...]string{"default", "perf", "ring", "auto"}

func (t Transport) String() string {
	if t < 0 || int(t) >= len(transportNames) {
		return fmt.Sprintf("transport %d", int(t))
	}
	return transportNames[t]
}

// ParseTransport reads a transport's name: "perf", "ring" or "auto".
func ParseTransport(s string) (Transport, error) {
	for _, t := range []Transport{TransportPerf, TransportRing, TransportAuto} {
		if s == t.String() {
			return t, nil
		}
	}
	return 0, fmt.Errorf("transport %q: must be perf, ring or auto", s)
}

// MaxSnapLen is the largest snaplen that the transport can carry, in bytes, whatever the size of
// its rings.
func (t Transport) MaxSnapLen() int {
	if t == TransportRing || t == TransportAuto {
		return MaxSnapLen
	}
	return int(samplerLimitPERF_MAX_SAMPLE_SIZE)
}

// A transport is one kind of Transport for one session. Each kind is one file, transport_NAME.go,
// with a function of the type newTransport. Each method is called once, in this order, except
// rings and ringOf. After an error only close is called.
type transport interface {
	// prepare sets the sizes of the transport's maps, and the constants that tell the programs
	// about it, before anything is created.
	prepare(spec *ebpf.CollectionSpec, sources []Source) error
	// open gets the created maps.
	open(maps map[string]*ebpf.Map) error
	// rings creates a ring for every CPU that is online and has none, and hands it to the programs.
	// It is called when the session opens, and by the reader about once a second, because CPUs may
	// come online. The caller closes the returned rings, even if there is an error. An error is
	// about one CPU: the next call continues with the others.
	rings() ([]ring, error)
	// ringOf returns a number for the ring that the programs use on a CPU. Each ring that the CPU
	// has had has another number; 0 = no ring. Any goroutine may call it once open has returned.
	ringOf(cpu int) uint32
	// close releases what the rings share. It is called after the rings are closed.
	close() error
}

type newTransport func(o *Options) transport

// transport returns the kind that the options name. checkRings has already chosen one of the two.
func (o *Options) transport() newTransport {
	if o.Transport == TransportRing {
		return newRingTransport
	}
	return newPerfTransport
}

// A ring holds the records of one CPU, and is read by one goroutine. The kernel writes after the
// last record. refill notices what it has written, and next walks along that, many records at a
// time.
type ring interface {
	// complete returns the stamp up to which the next refill will find all records. now is the time
	// of the call; both are in CLOCK_MONOTONIC ns.
	complete(now int64) int64
	// isHalfFull tells whether more than half of the ring was in use at the last refill.
	isHalfFull() bool
	// refill notices what the kernel has written since the last call.
	refill()
	// stamp returns the stamp of the next record, in CLOCK_MONOTONIC ns; false if there is none. A
	// record that no program can have sent has the stamp 0.
	stamp() (ns uint64, ok bool)
	// begin begins a group. If next has returned many records since the last release, begin lets
	// the kernel overwrite them.
	begin()
	// next decodes the next records into the elements of a slice while their stamps are not after
	// until. It returns how many, and what stamp returns after them. They refer to memory of the
	// ring, in which their Facts may be changed, and stay valid until begin or release is called. A
	// record that no program can have sent has no Data. Once the group has many bytes, next returns
	// no more records.
	next(packets []Packet, until uint64) (n int, stamp uint64, ok bool)
	// release lets the kernel overwrite all records that next has returned.
	release()
	// arm makes the ring ask to be read: when it fills up or, if at is onRecord and the kind of
	// ring supports that, at the next record. It returns the alarm that the reader can rely on.
	arm(at alarm) alarm
	// fd is readable when the ring asks to be read. It is -1 if another ring's fd stands for this
	// one, too, or if there is none.
	fd() int
	// isGone tells whether the kernel writes nothing more, because the CPU went offline.
	isGone() bool
	close() error
}

// An alarm says when a ring asks to be read.
type alarm int

const (
	never    alarm = iota // perhaps only when it is full
	unsure                // at the next record, but a record that comes while arm runs may be missed
	onPart                // when one of ringParts parts is filled
	onRecord              // at the next record
)

// ringParts is into how many parts a ring is divided: it asks to be read when one of them is
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
	tail  uint64 // end of what release has freed
}

func (w *walk) release() {
	if w.tail != w.end {
		w.tail = w.end
		atomic.StoreUint64(w.freed, w.tail)
	}
}

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

// powerOfTwoPages rounds up to a power of two, and to at least one page, as both transports need.
func powerOfTwoPages(n int) int { return 1 << bits.Len(uint(max(n, os.Getpagesize())-1)) }
