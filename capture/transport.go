package capture

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/machine"
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

// A transportKind has the properties of a Transport. Each transport's own file declares one, and
// other code asks it instead of comparing transports.
type transportKind struct {
	name       string // by which users ask for it, and which files and messages have
	about      string // what tells it from the others, for users, in a few words
	maxSnapLen int    // the largest snaplen that a record can have, in bytes
	maxRing    int    // the largest ring of a CPU, in bytes; at most MaxBuffer

	// fit chooses the size of each CPU's ring, and sets the transport to the one that it is for:
	// another one, if this one only says how to choose.
	fit    func(*ringOptions) error
	memory func() ringMemory
	open   newTransport // nil: it only says how to choose

	// lighter is another transport whose records are less work for the reader; TransportDefault =
	// none.
	lighter    Transport
	opensPerf  bool // a CPU that comes online takes a perf event
	showsPolls bool // its rings can show the stamp of the current NAPI poll: see stamp.go
}

// transportKinds are the kinds by their Transport.
var transportKinds = []*transportKind{
	TransportDefault: &byDefault,
	TransportPerf:    &byPerf,
	TransportRing:    &byRing,
	TransportAuto:    &byChoice,
}

var (
	byDefault = transportKind{name: "default", maxSnapLen: byPerf.maxSnapLen, fit: (*ringOptions).fitPerf, lighter: byPerf.lighter}
	byChoice  = transportKind{name: "auto", about: "ring where possible", maxSnapLen: MaxSnapLen, fit: (*ringOptions).fitEither}
)

// fitEither makes the transport TransportRing if such rings are possible, and else TransportPerf.
func (r *ringOptions) fitEither() error {
	if r.trySharedRings() {
		return nil
	}
	return r.fitPerf()
}

func (t Transport) isKnown() bool { return t >= 0 && int(t) < len(transportKinds) }

func (t Transport) kind() *transportKind {
	if !t.isKnown() {
		return &byDefault
	}
	return transportKinds[t]
}

func (t Transport) String() string {
	if !t.isKnown() {
		return fmt.Sprintf("transport %d", int(t))
	}
	return t.kind().name
}

// Transports returns the transports by which packets can come. TransportDefault and TransportAuto
// are none of them: they choose one.
func Transports() (all []Transport) {
	for t, kind := range transportKinds {
		if kind.open != nil {
			all = append(all, Transport(t))
		}
	}
	return all
}

// ParseTransport reads the name of a transport, or "auto".
func ParseTransport(s string) (Transport, error) {
	var names []string
	for _, t := range Transports() {
		if s == t.String() {
			return t, nil
		}
		names = append(names, t.String())
	}
	if s == TransportAuto.String() {
		return TransportAuto, nil
	}
	return 0, fmt.Errorf("transport %q: must be %s or %v", s, strings.Join(names, ", "), TransportAuto)
}

// About says what tells the transport from the others, in a few words.
func (t Transport) About() string { return t.kind().about }

// MaxSnapLen is the largest snaplen that the transport can carry, in bytes, whatever the size of
// its rings.
func (t Transport) MaxSnapLen() int { return t.kind().maxSnapLen }

// Lighter returns another transport, whose records are less work for the reader. It is
// TransportDefault if there is none.
func (t Transport) Lighter() Transport { return t.kind().lighter }

// OpensPerf reports whether the transport opens a perf event for a CPU that comes online. A sandbox
// must permit that.
func (t Transport) OpensPerf() bool { return t.kind().opensPerf }

// A transport is one kind of Transport for one session. Each kind is one file, transport_NAME.go,
// with a function of the type newTransport. Each method is called once, in this order, except
// rings and ringOf. After an error only close is called.
type transport interface {
	// prepare sets the sizes of the transport's maps, and the constants that tell the programs
	// about it, before anything is created. fragments reports whether there may be programs that
	// cannot copy all packets by themselves: see Source.InFragments.
	prepare(spec *ebpf.CollectionSpec, fragments bool) error
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

type newTransport func(r ringOptions) transport

// How far the records of a ring are complete.
const (
	// A program may be delayed between taking its time stamp and sending its record. A record is
	// handed over only when it is older than this, so that earlier records of other CPUs have
	// arrived. A packet that was delayed longer gets the time of the previous packet of the
	// session.
	settleTime = time.Millisecond
	// TransportRing shows when no record is being written. Then only records younger than this are
	// held back. It is longer than a CPU needs to make its stores visible to others, and than the
	// clocks of CPUs differ.
	promptTime = 10 * time.Microsecond
	// Where a ring shows that a record is being written, younger records are held back at most this
	// long: a hypervisor may take the CPU away from a program for that time.
	holdTime = 250 * time.Millisecond
)

// A ring holds the records of one CPU, and is read by one goroutine. The kernel writes after the
// last record. refill notices what it has written, and next walks along that, many records at a
// time.
type ring interface {
	// complete returns the stamp up to which the next refill will find all records. now is the time
	// of the call; both are in CLOCK_MONOTONIC ns.
	complete(now int64) int64
	// isHalfFull reports whether more than half of the ring was in use at the last refill.
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
	// isGone reports whether the kernel writes nothing more, because the CPU went offline.
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

// ringOptions are the Options that the rings of a session depend on.
type ringOptions struct {
	transport     Transport
	size          int         // of each CPU's ring, in bytes; 0 = the default
	immediate     bool        // each packet asks for its ring to be read
	interruptible bool        // packets may interrupt a program while it writes to a ring
	notice        func(error) // gives a Notice, unless the error is nil
}

func (o *Options) ringOptions() ringOptions {
	return ringOptions{transport: o.Transport, size: o.Buffer, immediate: o.Immediate, interruptible: o.StackDrops, notice: o.notice}
}

// A ringMemory says how much memory the rings of a transport take and how much there is.
type ringMemory struct {
	cpus      int                // CPUs that have a ring
	each      func(size int) int // memory in bytes of a ring with `size` bytes for records
	available machine.Memory
}

// all is how many bytes the rings of all CPUs take together.
func (m ringMemory) all(size int) uint64 { return uint64(m.each(size)) * uint64(m.cpus) }

// affordable halves the size of a ring until those of all CPUs take at most a quarter of the
// available memory, or the size is MinBuffer.
func (m ringMemory) affordable(size int) int {
	for size > MinBuffer && m.all(size) > m.available.Bytes/4 {
		size /= 2
	}
	return size
}

// fit fills in the size of each CPU's ring, a power of two of pages. All rings together may take a
// quarter of the available memory, because they keep it while the session lasts. A default size is
// lowered to that, and the error smaller says so.
func (r *ringOptions) fit(m ringMemory) (smaller, err error) {
	asked := r.size
	if asked == 0 {
		asked = DefaultBuffer
	}
	asked = powerOfTwoPages(asked)
	fits := m.affordable(asked)
	if fits < asked {
		text := fmt.Sprintf("rings of %s for %d CPUs would take more than a quarter of the available memory, which is %v",
			kibibytes(asked), m.cpus, m.available)
		if r.size != 0 {
			return nil, errkind.Errorf(ErrBufferTooLarge, "%s: at most %s fit", text, kibibytes(fits))
		}
		smaller = fmt.Errorf("%s: ring size lowered to %s", text, kibibytes(fits))
	}
	r.size = fits
	return smaller, nil
}

// enough returns how large each ring must be for this many more packets of this size, or 0 if that
// is not possible.
func (r *ringOptions) enough(size int, packets uint64) int {
	const around = 16 // bytes that a transport adds to a record, at most
	need := uint64(r.size) + packets*uint64(recordSize+size+around)
	if need > uint64(r.transport.kind().maxRing) {
		return 0
	}
	larger, memory := powerOfTwoPages(int(need)), r.transport.kind().memory()
	memory.available.Bytes += memory.all(r.size) // the present rings will be freed first
	if memory.affordable(larger) < larger {
		return 0
	}
	return larger
}

// kibibytes formats a power of two that is at least 1 KiB.
func kibibytes(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
