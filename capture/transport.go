package capture

import (
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

// A Transport is how packets come from the kernel to this process.
type Transport int

const (
	// TransportDefault is TransportPerf or, with a Notice, TransportRing where this process may not
	// have perf's rings.
	TransportDefault Transport = iota
	// TransportPerf sends packets through perf's rings, by bpf_perf_event_output.
	TransportPerf
	// TransportRing lets the programs write into memory that they share with this process, which
	// costs the traffic a fraction of perf's time, and needs none of perf's privileges.
	TransportRing
	// TransportAuto is TransportRing where the kernel has the memory for it, and else
	// TransportDefault. Session.Options tells which one it became.
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

// MaxSnapLen is how many bytes of a packet the transport can carry at most, in rings of any size.
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
	// prepare sets the sizes of the transport's maps, and the constants by which the programs know
	// it, before anything is made.
	prepare(spec *ebpf.CollectionSpec, sources []Source) error
	// open takes the maps that were made.
	open(maps map[string]*ebpf.Map) error
	// rings makes a ring for every CPU that is online and has none, and hands it to the programs.
	// It is called when the session opens, and by the reader about once a second, because CPUs may
	// come online. The rings that it returns are the caller's to close, also where it returns an
	// error, which is that of one CPU: the next call goes on with the others.
	rings() ([]ring, error)
	// ringOf tells which ring the programs use on a CPU, by a number: another one for each ring
	// that the CPU has had, 0 = it has none. Any goroutine may call it, once open has returned.
	ringOf(cpu int) uint32
	// close releases what the rings have in common. It is called after the rings were closed.
	close() error
}

type newTransport func(o *Options) transport

// transport is the kind that the options name, once that is one of the two.
func (o *Options) transport() newTransport {
	if o.Transport == TransportRing {
		return newRingTransport
	}
	return newPerfTransport
}

// A ring holds the records of one CPU, and is read by one goroutine. The kernel writes behind the
// last record; refill notices what it has written, and next goes along that, many records at once.
type ring interface {
	// complete tells up to which stamp there is no record that the next refill will not find. It
	// is given the time of the call, and both are in CLOCK_MONOTONIC ns.
	complete(now int64) int64
	// isHalfFull tells that at the last refill more than half of the ring was in use.
	isHalfFull() bool
	// refill notices what the kernel has written since the last call.
	refill()
	// stamp returns the stamp of the next record, in CLOCK_MONOTONIC ns; false where there is none.
	// One that no program can have sent has the stamp 0.
	stamp() (ns uint64, ok bool)
	// begin begins a group: it lets the kernel write where records lie that next returned before,
	// if these are many.
	begin()
	// next decodes the next records into the elements of a slice, as long as their stamps are not
	// after until, and returns how many, and what stamp returns then. They refer to memory of the
	// ring, in which their Facts may be changed, and stay valid until begin or release is called.
	// What no program can have sent has no Data. Of a group with many bytes, next returns none any
	// more.
	next(packets []Packet, until uint64) (n int, stamp uint64, ok bool)
	// release lets the kernel write where all records lie that next has returned.
	release()
	// arm lets the ring ask to be read from now on: when it fills up or, where at is onRecord and
	// the kind of ring can do that, at the next record. It returns what the reader may count on.
	arm(at alarm) alarm
	// fd is readable when the ring asks to be read; -1 where another ring's is, or none.
	fd() int
	// isGone tells that the kernel writes nothing more, because the CPU has gone.
	isGone() bool
	close() error
}

// An alarm is when a ring asks to be read.
type alarm int

const (
	never    alarm = iota // perhaps not before it is full
	unsure                // at the next record, but one that came just when it was asked may be missed
	onPart                // when a part of it is filled
	onRecord              // when a record comes
)

// ringParts says when a ring asks to be read: when one of so many parts of it has been filled.
const ringParts = 4

// A walk is a reader's way along a ring. The kernel writes records between tail and head, both
// counted in bytes since the beginning and never wrapped; moving the tail frees them.
type walk struct {
	size  uint64  // bytes of the ring
	freed *uint64 // where the kernel sees the tail

	limit uint64 // up to where records of this group may begin
	end   uint64 // where the records end that next has returned
	head  uint64 // what refill found written
	tail  uint64 // what release freed
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

// share is how many bytes of the ring are left behind until release, so that most of it is free for
// the kernel.
func (w *walk) share() uint64 { return w.size / 8 }
