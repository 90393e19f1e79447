package capture

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
)

// A ringTransport is the transport through memory that the programs share with this process: a map
// with a value for each CPU, which begins with a samplerRing. On a CPU without a value the program
// counts packets as lost.
type ringTransport struct {
	size   int // bytes of records in each ring
	notice func(error)
	// fragments carries packets in several buffers from tracers; nil if nothing is traced. A tracer
	// itself can read only the first buffer, but bpf_xdp_output reads all.
	fragments *perfTransport
	list      func() []int // returns the online CPUs
	present   func() int   // returns for how many CPUs to allocate memory
	inOrder   bool         // CPUs see the stores of another CPU in order

	tick   time.Duration // of the kernel's clock
	value  int           // bytes of a CPU's memory
	cpus   int           // the number of CPUs with memory
	mem    []byte
	bell   *doorbell
	served int // CPUs below this number have their ring, or cannot have one
}

// maxRingSize is the largest size for which the verifier accepts the program: offsets must stay
// below 512 MiB, and one more record must fit after the ring's end.
const maxRingSize = 256 << 20

func newRingTransport(o *Options) transport {
	t := &ringTransport{size: o.Buffer, notice: o.notice, list: machine.OnlineCPUs, present: presentCPUs}
	t.inOrder = runtime.GOARCH == "amd64"
	// Whether a program is traced is not known yet: prepare drops fragments if none is.
	fragments := *o
	fragments.Buffer = min(o.Buffer, fragmentsBuffer)
	t.fragments = newPerfTransport(&fragments).(*perfTransport)
	return t
}

// fragmentsBuffer is the size of the perf rings for packets in several buffers, in bytes.
const fragmentsBuffer = 1 << 20

func (t *ringTransport) prepare(spec *ebpf.CollectionSpec, sources []Source) error {
	if !slices.ContainsFunc(sources, func(s Source) bool { return s.Hook.Traces() }) {
		t.fragments = nil
	}
	t.fitFragments()
	t.fit(t.present())
	t.describe(spec.Maps[samplerMapRings])
	spec.Maps[samplerMapDoorbell].MaxEntries = uint32(os.Getpagesize())
	if err := spec.Variables[samplerVarRingSize].Set(uint64(t.size)); err != nil {
		return fmt.Errorf("set %s: %w", samplerVarRingSize, err)
	}
	if err := spec.Variables[samplerVarStoresInOrder].Set(t.inOrder); err != nil {
		return fmt.Errorf("set %s: %w", samplerVarStoresInOrder, err)
	}
	return nil
}

// fitFragments lowers the size of perf's rings to what this user may lock, or drops them.
func (t *ringTransport) fitFragments() {
	if t.fragments == nil {
		return
	}
	fits, err := support.FitPerfRings(t.fragments.size, MinBuffer)
	if err != nil {
		t.notice(fmt.Errorf("perf's rings are not available: %w: packets in several buffers are lost at traced programs", err))
		t.fragments = nil
		return
	}
	t.fragments.resize(fits)
}

// fit computes the memory of each CPU.
func (t *ringTransport) fit(cpus int) { t.cpus, t.value = cpus, sharedMemory(t.size) }

// sharedMemory is how much memory a CPU's ring with `size` bytes for records takes. It is rounded
// up because CPUs share no page, and has room after the ring's end for the rest of a record that
// begins before the end.
func sharedMemory(size int) int {
	return pages(int(samplerLimitRING_RECORDS_AT) + size + maxRingRecord)
}

// maxRingRecord is the length of the longest record.
const maxRingRecord = (factsSize + int(samplerLimitRING_MAX_SAMPLE_SIZE) + 7) &^ 7

// presentCPUs is one more than the highest number of a present CPU. It includes offline CPUs,
// because they may come online.
func presentCPUs() int {
	if present := machine.PresentCPUs(); present != nil {
		return present[len(present)-1] + 1
	}
	return ebpf.MustPossibleCPU()
}

func (t *ringTransport) describe(m *ebpf.MapSpec) {
	m.MaxEntries, m.ValueSize = uint32(t.cpus), uint32(t.value)
}

// pages rounds up to whole pages.
func pages(n int) int { return (n + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1) }

// canHaveRings tests whether the kernel has the memory for the rings that the options ask for.
func canHaveRings(o *Options) error {
	if o.Buffer > maxRingSize {
		return errRingTooLarge(o.Buffer)
	}
	t := &ringTransport{size: o.Buffer}
	t.fit(presentCPUs())
	m := &ebpf.MapSpec{Name: samplerMapRings, Type: ebpf.Array, KeySize: 4, Flags: unix.BPF_F_MMAPABLE}
	t.describe(m)
	made, err := ebpf.NewMap(m)
	if err != nil {
		return support.ExplainLoad("create the map "+m.Name, err)
	}
	return made.Close()
}

func errRingTooLarge(size int) error {
	return fmt.Errorf("buffer of %s per CPU: the transport %v allows at most %s",
		kibibytes(size), TransportRing, kibibytes(maxRingSize))
}

func (t *ringTransport) open(maps map[string]*ebpf.Map) (err error) {
	m := maps[samplerMapRings]
	if t.tick, err = clock.Tick(); err != nil {
		return err
	}
	if t.mem, err = unix.Mmap(m.FD(), 0, t.cpus*t.value, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the rings of %d CPUs into memory: %w", t.cpus, err)
	}
	if t.bell, err = openDoorbell(maps[samplerMapDoorbell]); err != nil {
		return err
	}
	if t.fragments != nil {
		t.fragments.shown = t.cpus
		return t.fragments.open(maps)
	}
	return nil
}

func (t *ringTransport) rings() (rings []ring, err error) {
	for ; t.served < t.cpus; t.served++ {
		r := newSharedRing(t.memory(t.served), t.size)
		r.tick = int64(t.tick)
		if t.served == 0 {
			r.bell = t.bell
		}
		rings = append(rings, r)
	}
	for _, cpu := range t.list() {
		if cpu >= t.served {
			t.served = cpu + 1
			err = errors.Join(err, fmt.Errorf("CPU %d was not present when the rings were created", cpu))
		}
	}
	if t.fragments != nil {
		more, failed := t.fragments.rings()
		return append(rings, more...), errors.Join(err, failed)
	}
	return rings, err
}

// ringOf is 1 for every CPU that has memory. Rings of fragments do not count.
func (t *ringTransport) ringOf(cpu int) uint32 {
	if cpu < t.cpus {
		return 1
	}
	return 0
}

// memory returns the memory of one CPU.
func (t *ringTransport) memory(cpu int) []byte { return t.mem[cpu*t.value:][:t.value:t.value] }

func (t *ringTransport) close() error {
	var errs []error
	if t.fragments != nil {
		errs = append(errs, t.fragments.close())
	}
	if t.bell != nil {
		errs = append(errs, t.bell.close())
	}
	if t.mem != nil {
		errs = append(errs, unix.Munmap(t.mem))
	}
	t.mem, t.bell, t.fragments = nil, nil, nil
	return errors.Join(errs...)
}

// A sharedRing is one CPU's ring: the first `size` bytes of data, a power of two. A record that
// begins near their end continues after them instead of wrapping around.
type sharedRing struct {
	walk
	shared  *samplerRing
	data    []byte    // the records, and room for the rest of the last one
	bell    *doorbell // nil if another ring has it
	touched uint64    // the sum of what was loaded ahead: unused loads would be removed by the compiler

	tick   int64  // how long a tick of the kernel's clock is, in ns
	wakeAt uint64 // the position at which arm last asked for the bell

	looked  int64  // the time of the last look of complete, in CLOCK_MONOTONIC ns
	written uint64 // head at that time
	settled int64  // time of the last look by which all earlier records were complete
}

func newSharedRing(memory []byte, size int) *sharedRing {
	shared := (*samplerRing)(unsafe.Pointer(&memory[0]))
	return &sharedRing{
		walk:   walk{size: uint64(size), freed: &shared.Tail},
		shared: shared,
		data:   memory[samplerLimitRING_RECORDS_AT:],
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

// complete waits for a record that is being written; that takes a fraction of a microsecond. It can
// see such a record because the program sets Filling before it takes the stamp. If a hypervisor
// takes the CPU away from the program meanwhile, complete returns the last time at which nothing
// was being written, for at most holdTime.
func (r *sharedRing) complete(now int64) int64 {
	before, last := r.looked, r.written
	r.looked, r.written = now, atomic.LoadUint64(&r.shared.Head)
	switch {
	case r.isSettled(r.written):
		r.settled = now
	case r.written != last: // what was being written at the last look is in the ring
		r.settled = before
	}
	until := max(r.settled, now-int64(holdTime)) - int64(promptTime)
	if poll := int64(atomic.LoadUint64(&r.shared.Poll)); poll != 0 && poll < until && r.isCurrent(poll) {
		return poll
	}
	return until
}

// isCurrent tells whether records may still get the stamp of a poll. The program takes a new stamp
// when it sees that the kernel's clock has ticked. This reads the same clock; the program's count
// of ticks is at most one tick behind it.
func (r *sharedRing) isCurrent(poll int64) bool {
	last, err := clock.LastTick()
	return err == nil && last <= poll+r.tick
}

// isSettled tells whether every record that was begun before this call is complete. head is its
// value before the call.
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
		r.bell.clear() // before head is read, so that no ring in between is missed
	}
	r.head = atomic.LoadUint64(&r.shared.Head)
}

// arm asks for the bell when a part of the ring is filled, or at the next record. The program reads
// WakeAt after it has moved head. If it moves head by a plain store (inOrder), it may read WakeAt
// before this process sees the new head: then the program misses the new WakeAt, and this process
// misses the record. So a new WakeAt for a record is reliable only from the second call of arm on,
// when such a store has long become visible. A part that is missed does no harm: the next record
// rings the bell, or the reader looks after its timeout.
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

// facts returns the facts that the program has written at a position in the ring.
func (r *sharedRing) facts(at uint64) *Facts {
	return (*Facts)(unsafe.Pointer(&r.data[at&(r.size-1)]))
}

func (r *sharedRing) stamp() (ns uint64, ok bool) {
	if r.end == r.head {
		return 0, false
	}
	return r.facts(r.end).stamp(), true
}

// data returns the bytes of a packet in a shared ring. They follow the facts.
func (f *Facts) data() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(f), factsSize)), max(f.length, shortData))[:f.length]
}

// stamp is the stamp of a record; 0 if no program can have sent it.
func (f *Facts) stamp() uint64 {
	if !f.isSent() {
		return 0
	}
	return uint64(f.Time)
}

func (r *sharedRing) next(packets []Packet, until uint64) (n int, stamp uint64, ok bool) {
	end, head := r.end, r.head
	touched := uint64(0)
	for end != head {
		f := r.facts(end)
		isSent, length := f.isSent(), uint64(f.length)
		if stamp = uint64(f.Time); !isSent {
			stamp = 0
		}
		if n == len(packets) || stamp > until || end > r.limit {
			r.end, r.touched = end, touched
			return n, stamp, true
		}
		p := &packets[n]
		n++
		size := (uint64(factsSize) + length + 7) &^ 7
		if length <= maxTouched {
			ahead := unsafe.Pointer(r.facts(end + touchAhead))
			touched += *(*uint64)(ahead) + *(*uint64)(unsafe.Add(ahead, 64)) + *(*uint64)(unsafe.Add(ahead, 128))
		}
		switch {
		case size > head-end || length > uint64(MaxSnapLen):
			*p = Packet{}
			end = head // it is not known where the next record begins
			continue
		case isSent:
			p.Facts = f
			p.Data = f.data()
		default:
			*p = Packet{Facts: f}
		}
		end += size
	}
	r.end, r.touched = end, touched
	return n, 0, false
}

// shortData is the minimum capacity of a packet's Data, because pcapng.Template copies this much at
// once. There is always that much memory: a ring has room for the longest record after its end.
const shortData = 64

// A record begins where the previous one ends, so the CPU waits for the length of each. Loading
// memory touchAhead bytes ahead makes it wait for several at once. After a packet longer than
// maxTouched, the load would hit the middle of a record and not help.
const (
	touchAhead = 1024
	maxTouched = 192
)

// A doorbell is a BPF ring buffer of one page. The programs write to it when a ring asks to be
// read, because a write to shared memory does not wake a process.
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

// clear empties the ring buffer, so that it can ring again.
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

// powerOfTwoPages rounds up to a power of two, and to at least one page, as both transports need.
func powerOfTwoPages(n int) int { return 1 << bits.Len(uint(max(n, os.Getpagesize())-1)) }
