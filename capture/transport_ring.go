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

// A ringTransport is the transport by memory that the programs share with this process: a map with
// a value for each CPU, which begins with a samplerRing. On a CPU that has none the program counts
// packets as lost.
type ringTransport struct {
	size   int // bytes of records in each ring
	notice func(error)
	// fragments carries the packets of tracers that have several buffers; nil where none traces. A
	// tracer can read only the first buffer itself, and bpf_xdp_output reads all.
	fragments *perfTransport
	list      func() []int // the CPUs that are online
	present   func() int   // for how many CPUs memory is taken
	inOrder   bool         // CPUs see the stores of another one in their order

	tick   time.Duration // of the kernel's clock
	value  int           // bytes of a CPU's memory
	cpus   int           // how many CPUs have memory
	mem    []byte
	bell   *doorbell
	served int // up to which CPU rings were handed out, or cannot be had
}

// maxRingSize is what the verifier lets a program reckon with: offsets below 512 MiB, in which one
// record more must have room.
const maxRingSize = 256 << 20

func newRingTransport(o *Options) transport {
	t := &ringTransport{size: o.Buffer, notice: o.notice, list: machine.OnlineCPUs, present: presentCPUs}
	t.inOrder = runtime.GOARCH == "amd64"
	// Interfaces where a program runs are traced, and that is found out after this.
	fragments := *o
	fragments.Buffer = min(o.Buffer, fragmentsBuffer)
	t.fragments = newPerfTransport(&fragments).(*perfTransport)
	return t
}

// fragmentsBuffer is how large the perf rings for packets in several buffers are, in bytes.
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

// fitFragments fits perf's rings to what this user may lock, or does without them.
func (t *ringTransport) fitFragments() {
	if t.fragments == nil {
		return
	}
	fits, err := support.FitPerfRings(t.fragments.size, MinBuffer)
	if err != nil {
		t.notice(fmt.Errorf("there are no perf rings: %w: packets in several buffers are lost where a program is traced", err))
		t.fragments = nil
		return
	}
	t.fragments.resize(fits)
}

// fit finds out how much memory it takes.
func (t *ringTransport) fit(cpus int) { t.cpus, t.value = cpus, sharedMemory(t.size) }

// sharedMemory is how many bytes a CPU's ring takes whose records have `size` bytes: CPUs share no
// page, and a record that begins at the ring's end goes on after it.
func sharedMemory(size int) int {
	return pages(int(samplerLimitRING_RECORDS_AT) + size + maxRingRecord)
}

// maxRingRecord is how long a record can be.
const maxRingRecord = (factsSize + int(samplerLimitRING_MAX_SAMPLE_SIZE) + 7) &^ 7

// presentCPUs is one more than the highest number of a CPU that is there: also of one that is
// offline, because it may come.
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

// canHaveRings tries whether the kernel has the memory for rings as the options ask for.
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
	return fmt.Errorf("buffer of %s per CPU: a ring of the transport %v has at most %s",
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
			err = errors.Join(err, fmt.Errorf("CPU %d was not there when the rings were made", cpu))
		}
	}
	if t.fragments != nil {
		more, failed := t.fragments.rings()
		return append(rings, more...), errors.Join(err, failed)
	}
	return rings, err
}

// ringOf is 1 for every CPU that has memory. Those of fragments do not count.
func (t *ringTransport) ringOf(cpu int) uint32 {
	if cpu < t.cpus {
		return 1
	}
	return 0
}

// memory is that of one CPU.
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

// A sharedRing is one CPU's ring. A record that begins at the end of data's first `size` bytes, a
// power of two, goes on behind them.
type sharedRing struct {
	walk
	shared  *samplerRing
	data    []byte    // the records, and room for the end of the last one
	bell    *doorbell // nil where another ring has it
	touched uint64    // a sum of what was loaded ahead, or the compiler would leave that out

	tick   int64  // how long a tick of the kernel's clock is, in ns
	wakeAt uint64 // where arm has asked for the bell last

	looked  int64  // the time of the last look of complete, in CLOCK_MONOTONIC ns
	written uint64 // head at that time
	settled int64  // when a look last found no record that had been begun before it
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

func (r *sharedRing) isGone() bool { return false } // the memory stays, and serves the CPU when it comes back

func (r *sharedRing) close() error { return nil } // the transport closes what rings have in common

// complete waits for a record that is being written, which takes a fraction of a microsecond, since
// the program takes the stamp after it has set Filling. Where the CPU was taken away from the
// program meanwhile, as a hypervisor does it, the ring is as complete as when nothing was being
// written, for as long as holdTime.
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

// isCurrent tells whether records may still get the stamp of a poll. The program takes another one
// when it finds that the kernel's clock has ticked. That clock is read here, of which the program's
// count of ticks is never behind by more than one.
func (r *sharedRing) isCurrent(poll int64) bool {
	last, err := clock.LastTick()
	return err == nil && last <= poll+r.tick
}

// isSettled tells that no record is being written that was begun before this call, when head was
// this.
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
		r.bell.clear() // before the look at head, so that nothing comes between
	}
	r.head = atomic.LoadUint64(&r.shared.Head)
}

// arm asks for the bell when a part of the ring is filled, or at the next record. The program looks
// for that after it has moved head. Where that is a mere store (inOrder), the program may look
// before this process sees it: then neither sees what the other one did. So a new place for a
// record can be counted on from the second time that it is asked for, when such a store has long
// been seen. A part that is missed so does no harm: the next record rings, or the reader looks by
// itself.
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

// facts are those at a place in the ring, which the program has written.
func (r *sharedRing) facts(at uint64) *Facts {
	return (*Facts)(unsafe.Pointer(&r.data[at&(r.size-1)]))
}

func (r *sharedRing) stamp() (ns uint64, ok bool) {
	if r.end == r.head {
		return 0, false
	}
	return r.facts(r.end).stamp(), true
}

// data are the bytes of a packet in a shared ring, where they follow.
func (f *Facts) data() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(f), factsSize)), max(f.length, shortData))[:f.length]
}

// stamp is that of a record; 0 where no program can have sent it.
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
			end = head // nothing tells where the next record begins
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

// shortData is how much memory the Data of a packet has at least: pcapng.Template copies so much at
// once. There always is as much: a ring has room for a record of any length after its end.
const shortData = 64

// A record begins where the one before ends, so the CPU waits for the length of each of them. To
// load what lies so many bytes ahead lets it wait for several at once. Behind a packet that is
// longer than maxTouched, that would be the middle of the next one.
const (
	touchAhead = 1024
	maxTouched = 192
)

// A doorbell is a BPF ring buffer of one page that the programs put something into when a ring asks
// to be read, because a write into shared memory wakes nobody.
type doorbell struct {
	fd                 int
	consumer, producer []byte // its pages with the two positions
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

// clear makes room for what is put in next.
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

// powerOfTwoPages rounds up to a power of two of pages, which both transports need.
func powerOfTwoPages(n int) int { return 1 << bits.Len(uint(max(n, os.Getpagesize())-1)) }
