package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
)

// A perfRing is one CPU's perf ring buffer, read in place.
type perfRing struct {
	walk
	event   int
	mem     []byte                  // the mapping: the meta page, then data
	meta    *unix.PerfEventMmapPage // head and tail, shared with the kernel
	data    []byte                  // its length is a power of two
	wrap    []byte                  // for a record that wraps around to the beginning of data
	records [GroupSize]Record       // copies of this group's records, without the packets' bytes
	used    int                     // how many of records are used
	own     []byte                  // copies of records together with the packets' bytes
	gone    bool                    // the CPU went offline, and the kernel has disabled its event

	hasAhead  bool          // stamp has found the next record, which is ahead
	ahead     packet.Packet // it points into the ring, and is read-only
	aheadSize uint64        // bytes from end to the end of that record, including skipped ones

	hasShared bool // the CPU also has a shared ring, which shows when a record is being written here
}

var byPerf = transportKind{
	name: "perf", about: "default where permitted",
	maxSnapLen: int(kernel.SamplerLimitPERF_MAX_SAMPLE_SIZE), maxRing: MaxSize,
	fit: (*Options).fitPerf, memory: perfRings, open: newPerfTransport,
	lighter: TransportRing, opensPerf: true,
}

// perfRings is the memory for the rings. The kernel charges it to no cgroup.
func perfRings() ringMemory {
	return ringMemory{cpus: machine.CPUs(), each: perfMemory, available: machine.MachineMemory()}
}

// A perfTransport is the transport through a BPF_MAP_TYPE_PERF_EVENT_ARRAY. On a CPU without a ring
// the program counts packets as lost.
type perfTransport struct {
	events     *ebpf.Map // the ring of each CPU; nil until open
	immediate  bool      // each packet wakes the poller
	size       int
	watermark  int
	onlineCPUs func() []int
	period     func(cpu int) uint64 // machine.OnlinePeriod

	online []int             // the CPUs that the last call of rings found online
	served map[int]*perfRing // by CPU, nil = it cannot have a ring; the map is nil before the first call of rings

	made       uint32          // rings created so far
	numbers    []atomic.Uint32 // by CPU: the number of its ring; 0 = none
	periods    []atomic.Uint64 // by CPU: the period in which its ring was created
	sharedCPUs int             // CPUs below this number also have a shared ring
}

// fitPerf sets the transport to TransportPerf, and the size of its rings, which the memory that
// this user may lock also limits. If the transport was TransportDefault and perf's rings are
// refused, it becomes TransportRing.
func (r *Options) fitPerf() error {
	asked := r.Size
	whySmaller, err := r.fitInto(perfRings())
	if err != nil {
		return err
	}
	fits, err := support.FitPerfRings(r.Size, MinSize)
	if err != nil && r.Transport == TransportDefault {
		r.notice(fmt.Errorf("perf's rings are not available: %w: using the transport %v", err, TransportRing))
		r.Transport, r.Size = TransportRing, asked
		return r.fitShared()
	}
	r.notice(whySmaller)
	switch {
	case err != nil: // opening the rings, before anything is attached, returns an error with the remedy
	case fits < r.Size && asked != 0:
		return message.Errorf(support.ErrLockedMemory, "%s: at most %s fit", tooMuchLocked(r.Size), message.Kibibytes(fits))
	case fits < r.Size:
		r.notice(fmt.Errorf("%s: ring size lowered to %s", tooMuchLocked(r.Size), message.Kibibytes(fits)))
		r.Size = fits
	}
	r.Transport = TransportPerf
	return nil
}

func tooMuchLocked(size int) string {
	return fmt.Sprintf("rings of %s for %d CPUs exceed the memory that this user may lock", message.Kibibytes(size), machine.CPUs())
}

func newPerfTransport(r Options) transport {
	t := &perfTransport{immediate: r.Immediate, onlineCPUs: machine.OnlineCPUs, period: machine.OnlinePeriod}
	t.resize(r.Size)
	return t
}

// resize sets the size of each CPU's ring.
func (t *perfTransport) resize(size int) {
	t.size, t.watermark = size, size/ringParts
	if t.immediate {
		t.watermark = 1
	}
}

// prepare has nothing to do: by default the map of events has one entry for each CPU.
func (t *perfTransport) prepare(*ebpf.CollectionSpec, bool) error { return nil }

func (t *perfTransport) open(maps map[string]*ebpf.Map) error {
	t.events = maps[kernel.SamplerMapSamples]
	t.numbers = make([]atomic.Uint32, t.events.MaxEntries())
	t.periods = make([]atomic.Uint64, t.events.MaxEntries())
	return nil
}

func (t *perfTransport) close() error { return nil }

func (t *perfTransport) rings() (rings []ring, err error) {
	online := t.onlineCPUs()
	isFirst := t.served == nil
	if isFirst {
		t.served = make(map[int]*perfRing)
	} else if !t.leave(online) && slices.Equal(online, t.online) {
		return nil, nil
	}
	// All CPUs are tried, because a container may see only some of those that are online.
	for cpu := range int(t.events.MaxEntries()) {
		if _, ok := t.served[cpu]; ok {
			continue
		}
		t.periods[cpu].Store(t.period(cpu))
		r, err := openPerfRing(cpu, t.size, t.watermark)
		if errors.Is(err, unix.ENODEV) {
			continue // the CPU is offline
		}
		t.served[cpu] = r
		if r != nil {
			r.hasShared = cpu < t.sharedCPUs
		}
		if !isFirst && errors.Is(err, support.ErrPerfRefused) {
			return rings, message.Errorf(ErrPerfRefused, "this process may no longer open perf events (CPU %d)", cpu)
		}
		if err != nil {
			return rings, err
		}
		rings = append(rings, r)
		if err := t.events.Put(uint32(cpu), uint32(r.event)); err != nil {
			return rings, fmt.Errorf("hand the ring of CPU %d to the sampling program: %w", cpu, err)
		}
		t.made++
		t.numbers[cpu].Store(t.made)
	}
	t.online = online
	return rings, nil
}

// leave gives up the rings of CPUs that were offline since the last call, even if they are online
// again, and reports whether there are any.
func (t *perfTransport) leave(online []int) (some bool) {
	for _, cpu := range t.online {
		r := t.served[cpu]
		if slices.Contains(online, cpu) && (r == nil || t.ringOf(cpu) != 0) {
			continue
		}
		if r != nil {
			r.gone = true
		}
		delete(t.served, cpu)
		t.numbers[cpu].Store(0)
		some = true
	}
	return some
}

// perfMemory is how much memory a CPU's ring with `size` bytes for records takes.
func perfMemory(size int) int { return os.Getpagesize() + size }

// openPerfRing creates the ring of one CPU. The kernel wakes the poller after `watermark` bytes.
func openPerfRing(cpu, size, watermark int) (*perfRing, error) {
	event, mem, err := support.OpenPerfRing(cpu, size, watermark)
	if errors.Is(err, support.ErrPerfRefused) {
		return nil, message.Errorf(ErrPerfRefused, "%w", err)
	}
	if err != nil {
		return nil, err
	}
	r := newPerfRing((*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])), mem[os.Getpagesize():])
	r.event, r.mem = event, mem
	return r, nil
}

func newPerfRing(meta *unix.PerfEventMmapPage, data []byte) *perfRing {
	return &perfRing{walk: walk{size: uint64(len(data)), freed: &meta.Data_tail}, meta: meta, data: data}
}

func (t *perfTransport) ringOf(cpu int) uint32 {
	number := t.numbers[cpu].Load()
	if number == 0 {
		return 0
	}
	if now, then := t.period(cpu), t.periods[cpu].Load(); now != 0 && then != 0 && now != then {
		return 0 // the CPU was offline in between, which has disabled the event
	}
	return number
}

func (r *perfRing) fd() int { return r.event }

func (r *perfRing) isGone() bool { return r.gone }

func (r *perfRing) close() error {
	return errors.Join(unix.Munmap(r.mem), unix.Close(r.event))
}

// complete is a guess unless hasShared, because perf does not show that a record is being written.
func (r *perfRing) complete(now int64) int64 {
	if r.hasShared {
		return now - int64(promptTime)
	}
	return now - int64(SettleTime)
}

func (r *perfRing) refill() { r.head = atomic.LoadUint64(&r.meta.Data_head) }

// arm ignores its argument: the kernel wakes the reader whenever another part of the ring is filled
// or, with Options.Immediate, at each record.
func (r *perfRing) arm(alarm) alarm {
	if r.head-r.tail > r.size/ringParts {
		return never
	}
	return onPart
}

// stamp finds the next record. It skips the kernel's own records. One of these, PERF_RECORD_LOST,
// comes late or never, so the program itself counts lost packets.
func (r *perfRing) stamp() (ns uint64, ok bool) {
	for !r.hasAhead && r.end+r.aheadSize != r.head {
		r.hasAhead = r.decodeAhead()
	}
	switch {
	case !r.hasAhead:
		r.end, r.aheadSize = r.head, 0
		return 0, false
	case r.ahead.Data == nil:
		return 0, true
	}
	return uint64(r.ahead.Time), true
}

// decodeAhead decodes the next record of the ring into ahead, and returns false if it is one of the
// kernel's own.
func (r *perfRing) decodeAhead() bool {
	// Records are multiples of eight bytes, so a header never wraps around.
	at := (r.end + r.aheadSize) & uint64(len(r.data)-1)
	left := r.head - r.end - r.aheadSize
	header := binary.LittleEndian.Uint64(r.data[at:])
	kind, size := uint32(header), header>>48
	if size < perfHeaderSize || size > left {
		r.ahead = packet.Packet{}
		r.aheadSize += left // it is not known where the next record begins
		return true
	}
	r.aheadSize += size
	if kind != unix.PERF_RECORD_SAMPLE {
		return false
	}
	raw := r.bytes(at, size)[perfHeaderSize:]
	if len(raw) >= 4 && uint64(binary.LittleEndian.Uint32(raw)) == uint64(len(raw)-4) {
		decode(&r.ahead, raw[4:])
	} else {
		r.ahead = packet.Packet{}
	}
	return true
}

func (r *perfRing) begin() {
	r.walk.begin()
	r.used, r.own = 0, r.own[:0]
}

func (r *perfRing) next(packets []packet.Packet, until uint64) (n int, stamp uint64, ok bool) {
	for {
		stamp, ok = r.stamp()
		if !ok || stamp > until || n == len(packets) || r.used == len(r.records) || r.end > r.limit {
			return n, stamp, ok
		}
		packets[n] = r.ahead
		r.own = copyTo(&packets[n], &r.records[r.used], r.own)
		r.used++
		r.end += r.aheadSize
		r.hasAhead, r.aheadSize = false, 0
		n++
	}
}

// copyTo copies the record of a packet, because the ring is read-only and the reader changes
// records. If it will also change the packet's bytes, both are appended to own. If own then moves
// to larger memory, earlier packets keep pointing to their copies in the former one.
func copyTo(p *packet.Packet, to *Record, own []byte) []byte {
	if p.Facts == nil {
		return own
	}
	from := recordOf(p.Facts)
	if p.Data == nil || !from.hasTag() {
		*to = *from
		p.Facts = &to.Facts
		return own
	}
	at, length := len(own), recordSize+len(p.Data)
	own = append(own, unsafe.Slice((*byte)(unsafe.Pointer(from)), length)...)
	decode(p, own[at:])
	return own
}

const perfHeaderSize = 8

// bytes returns a record in one piece. One buffer is enough: at most one of the records of a call
// of next wraps around.
func (r *perfRing) bytes(at, size uint64) []byte {
	if at+size <= uint64(len(r.data)) {
		return r.data[at : at+size]
	}
	r.wrap = append(r.wrap[:0], r.data[at:]...)
	r.wrap = append(r.wrap, r.data[:size-uint64(len(r.wrap))]...)
	return r.wrap
}
