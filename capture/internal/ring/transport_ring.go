package ring

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
)

var byRing = transportKind{
	name: "ring", about: "shared memory, which slows the traffic less",
	maxSnapLen: MaxSnapLen, maxRing: maxRingSize,
	fit: (*Options).fitShared, memory: sharedRings, open: newRingTransport,
	showsPolls: true,
}

// sharedRings is the memory for the rings. The kernel charges a map to the cgroup of the process
// that creates it, so the limits of this process's cgroups hold for the rings, too.
func sharedRings() ringMemory {
	return ringMemory{cpus: PresentCPUs(), each: sharedMemory, available: machine.AvailableMemory()}
}

// A ringTransport is the transport through memory that the programs share with this process: a map
// with a value for each CPU, which begins with a kernel.SamplerRing. On a CPU without a value the
// program counts packets as lost.
type ringTransport struct {
	size   int // bytes of records in each ring
	notice func(error)
	// fragments are perf's rings for packets in several buffers at a tracer: it can copy only the
	// first buffer into a shared ring, while bpf_xdp_output copies all of them into a perf ring.
	// nil if no program is traced, or if perf's rings are not available.
	fragments *perfTransport
	// interruptible means that packets may interrupt a tracer while it writes to the shared ring:
	// an interrupt receives them on a CPU where the stack is just throwing a packet away for a
	// process. The interrupting packets go through fragments, too.
	interruptible bool
	onlineCPUs    func() []int
	cpuCount      func() int // returns for how many CPUs to allocate memory
	inOrder       bool       // CPUs see the stores of another CPU in order

	tick   time.Duration // of the kernel's clock
	value  int           // bytes of memory of each CPU: the size of a value of the map
	cpus   int           // CPUs below this number have memory
	mem    []byte
	bell   *doorbell
	served int // CPUs below this number have their ring, or cannot have one
}

// maxRingSize is the largest size for which the verifier accepts the program: offsets must stay
// below 512 MiB, and one more record must fit after the ring's end.
const maxRingSize = 256 << 20

func newRingTransport(r Options) transport {
	t := &ringTransport{size: r.Size, notice: r.notice, onlineCPUs: machine.OnlineCPUs, cpuCount: PresentCPUs, interruptible: r.Interruptible}
	t.inOrder = runtime.GOARCH == "amd64"
	// Whether a program is traced is not known yet: prepare drops fragments if none is.
	r.Size = min(r.Size, fragmentsBuffer)
	t.fragments = newPerfTransport(r).(*perfTransport)
	return t
}

// fragmentsBuffer is the size of the perf rings for packets in several buffers, in bytes.
const fragmentsBuffer = 1 << 20

func (t *ringTransport) prepare(spec *ebpf.CollectionSpec, fragments bool) error {
	if !fragments {
		t.fragments = nil
	}
	t.fitFragments()
	t.planMemory(t.cpuCount())
	t.describe(spec.Maps[kernel.SamplerMapRings])
	spec.Maps[kernel.SamplerMapDoorbell].MaxEntries = uint32(os.Getpagesize())
	if err := spec.Variables[kernel.SamplerVarRingSize].Set(uint64(t.size)); err != nil {
		return fmt.Errorf("set %s: %w", kernel.SamplerVarRingSize, err)
	}
	if err := spec.Variables[kernel.SamplerVarStoresInOrder].Set(t.inOrder); err != nil {
		return fmt.Errorf("set %s: %w", kernel.SamplerVarStoresInOrder, err)
	}
	if err := spec.Variables[kernel.SamplerVarPerfBeside].Set(t.fragments != nil); err != nil {
		return fmt.Errorf("set %s: %w", kernel.SamplerVarPerfBeside, err)
	}
	if err := spec.Variables[kernel.SamplerVarInterruptible].Set(t.interruptible && t.fragments != nil); err != nil {
		return fmt.Errorf("set %s: %w", kernel.SamplerVarInterruptible, err)
	}
	return nil
}

// fitFragments lowers the size of perf's rings to the size that this user may lock, or drops them.
func (t *ringTransport) fitFragments() {
	if t.fragments == nil {
		return
	}
	fits, err := support.FitPerfRings(t.fragments.size, MinSize)
	if err != nil {
		t.notice(fmt.Errorf("perf's rings are not available: %w: packets in several buffers are lost at traced programs, and truncated where the stack throws them away; what interrupts another record is lost", err))
		t.fragments = nil
		return
	}
	t.fragments.resize(fits)
}

// planMemory sets for how many CPUs there is memory, and how much each has.
func (t *ringTransport) planMemory(cpus int) { t.cpus, t.value = cpus, sharedMemory(t.size) }

// sharedMemory is how much memory a CPU's ring with `size` bytes for records takes. It is rounded
// up because CPUs share no page, and has room after the ring's end for the rest of a record that
// begins before the end.
func sharedMemory(size int) int {
	return pages(int(kernel.SamplerLimitRING_RECORDS_AT) + size + maxRingRecord)
}

// maxRingRecord is the length of the longest record.
const maxRingRecord = (recordSize + int(kernel.SamplerLimitRING_MAX_SAMPLE_SIZE) + 7) &^ 7

// PresentCPUs is one more than the highest number of a present CPU. It includes offline CPUs,
// because they may come online.
func PresentCPUs() int {
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

// canHaveRings tests whether the kernel has the memory for rings of this size.
func canHaveRings(size int) error {
	if size > maxRingSize {
		return errRingTooLarge(size)
	}
	t := &ringTransport{size: size}
	t.planMemory(PresentCPUs())
	m := &ebpf.MapSpec{Name: kernel.SamplerMapRings, Type: ebpf.Array, KeySize: 4, Flags: unix.BPF_F_MMAPABLE}
	t.describe(m)
	made, err := ebpf.NewMap(m)
	if err != nil {
		return support.ExplainLoad("create the map "+m.Name, err)
	}
	return made.Close()
}

func errRingTooLarge(size int) error {
	return fmt.Errorf("buffer of %s per CPU: the transport %v allows at most %s",
		message.Kibibytes(size), TransportRing, message.Kibibytes(maxRingSize))
}

// fitShared chooses the size of TransportRing's rings.
func (r *Options) fitShared() error {
	if powerOfTwoPages(r.Size) > maxRingSize {
		return message.Errorf(support.ErrBufferTooLarge, "%w", errRingTooLarge(r.Size))
	}
	whySmaller, err := r.fitInto(sharedRings())
	r.notice(whySmaller)
	return err
}

// trySharedRings turns TransportAuto into TransportRing. It returns false if such rings are not
// possible.
func (r *Options) trySharedRings() bool {
	shared := *r
	shared.Transport = TransportRing
	whySmaller, err := shared.fitInto(sharedRings())
	if err != nil || canHaveRings(shared.Size) != nil {
		return false
	}
	*r = shared
	r.notice(whySmaller)
	return true
}

func (t *ringTransport) open(maps map[string]*ebpf.Map) (err error) {
	m := maps[kernel.SamplerMapRings]
	if t.tick, err = machine.ClockTick(); err != nil {
		return err
	}
	if t.mem, err = unix.Mmap(m.FD(), 0, t.cpus*t.value, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the rings of %d CPUs into memory: %w", t.cpus, err)
	}
	if t.bell, err = openDoorbell(maps[kernel.SamplerMapDoorbell]); err != nil {
		return err
	}
	if t.fragments != nil {
		t.fragments.sharedCPUs = t.cpus
		return t.fragments.open(maps)
	}
	return nil
}

// rings returns only the rings that earlier calls have not returned. It reports each CPU without
// memory once.
func (t *ringTransport) rings() (rings []ring, err error) {
	for ; t.served < t.cpus; t.served++ {
		r := newSharedRing(t.memory(t.served), t.size)
		r.tick = int64(t.tick)
		if t.served == 0 { // all rings share the bell, and the poller needs it once
			r.bell = t.bell
		}
		rings = append(rings, r)
	}
	for _, cpu := range t.onlineCPUs() {
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

// ringOf is 1 for every CPU that has memory, because a CPU keeps it, and its ring, until the end.
// The rings of fragments have no numbers here.
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
