package ring

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A programTest is the sampling program of XDP with its rings, not attached to anything. Its
// filter matches packets of at most 64 bytes, and of 100 and more.
type programTest struct {
	t       *testing.T
	set     *Set
	maps    map[string]*ebpf.Map
	program *ebpf.Program
	late    error // of CPUs that can have no ring
}

// newProgramTest loads the program; changes are made to the transport before.
func newProgramTest(t *testing.T, o Options, changes ...func(transport)) *programTest {
	t.Helper()
	testnet.RequireRoot(t)
	testnet.Must(t, o.Fit())
	p := &programTest{t: t, set: New(o)}
	t.Cleanup(func() { testnet.Must(t, p.set.Close()) })
	for _, change := range changes {
		change(p.set.transport)
	}
	spec, err := kernel.LoadSampler()
	testnet.Must(t, err)
	for _, name := range []string{kernel.SamplerMapAccounts, kernel.SamplerMapPassages, kernel.SamplerMapFlows, kernel.SamplerMapScratches} {
		spec.Maps[name].MaxEntries = 1
	}
	testnet.Must(t, p.set.Prepare(spec, false))
	classic, err := filter.Compile("greater 100 or less 64", filter.Options{})
	testnet.Must(t, err)
	filter, err := attach.NewFilter(classic, int(kernel.SamplerHeadLimitHEAD_BYTES))
	testnet.Must(t, err)
	testnet.Must(t, attach.Set(spec, filter.Constants()))
	testnet.Must(t, attach.Set(spec, map[string]any{
		kernel.SamplerVarSnaplen: uint32(o.Transport.MaxSnapLen()), kernel.SamplerVarVerdict: uint32(xdp.Pass), kernel.SamplerVarOneIn: uint32(1),
	}))
	program := spec.Programs[kernel.SamplerProgXdpcapXdp]
	testnet.Must(t, filter.Put(program))
	spec.Programs = map[string]*ebpf.ProgramSpec{program.Name: program}
	loaded, err := ebpf.NewCollection(spec)
	testnet.Must(t, err)
	t.Cleanup(loaded.Close)
	p.maps, p.program = loaded.Maps, loaded.Programs[program.Name]
	perCPU := make([]kernel.SamplerAccount, ebpf.MustPossibleCPU())
	for cpu := range perCPU {
		perCPU[cpu].Cpu, perCPU[cpu].Weight = uint64(cpu), 1
	}
	testnet.Must(t, p.maps[kernel.SamplerMapAccounts].Put(uint32(0), perCPU))
	testnet.Must(t, p.maps[kernel.SamplerMapRates].Put(uint32(0), uint32(1)))
	testnet.Must(t, p.set.Open(p.maps))
	if p.late = p.set.Refresh(); p.late != nil && changes == nil {
		t.Fatal(p.late)
	}
	return p
}

// run gives the packet to the program n times.
func (p *programTest) run(packet []byte, n int) {
	p.t.Helper()
	for range n {
		_, err := p.program.Run(&ebpf.RunOptions{Data: packet})
		testnet.Must(p.t, err)
	}
}

// runOn is run on one CPU.
func (p *programTest) runOn(cpu int, packet []byte, n int) {
	p.t.Helper()
	testnet.Must(p.t, machine.Quiet(cpu, func() error {
		p.run(packet, n)
		return nil
	}))
}

// instructions are those of the program, as the verifier has left them.
func (p *programTest) instructions() asm.Instructions {
	p.t.Helper()
	info, err := p.program.Info()
	testnet.Must(p.t, err)
	all, err := info.Instructions()
	testnet.Must(p.t, err)
	return all
}

// samples takes everything out of the rings.
func (p *programTest) samples() (samples []Record, packets [][]byte) {
	p.t.Helper()
	for _, c := range p.set.cursors {
		c.ring.refill()
		for {
			r, found := c.advance(1)
			if found == nothing {
				break
			}
			if found == invalid {
				p.t.Error("an invalid record")
				continue
			}
			samples = append(samples, *recordOf(r.Facts))
			packets = append(packets, bytes.Clone(r.Data))
		}
		c.ring.release()
	}
	return samples, packets
}

// expect compares what the program counted on all CPUs.
func (p *programTest) expect(want kernel.SamplerAccount) {
	p.t.Helper()
	var perCPU []kernel.SamplerAccount
	testnet.Must(p.t, p.maps[kernel.SamplerMapAccounts].Lookup(uint32(0), &perCPU))
	var sum kernel.SamplerAccount
	for _, a := range perCPU {
		sum.Seen += a.Seen
		sum.FilteredOut += a.FilteredOut
		sum.NotSampled += a.NotSampled
		sum.Lost += a.Lost
		sum.Sampled += a.Sampled
	}
	if sum != want {
		p.t.Errorf("the program counted %+v, want %+v", sum, want)
	}
}

// shared is the shared ring of a CPU.
func (p *programTest) shared(cpu int) *kernel.SamplerRing {
	return (*kernel.SamplerRing)(unsafe.Pointer(&p.set.transport.(*ringTransport).memory(cpu)[0]))
}

// rings counts how often the doorbell was rung.
func (p *programTest) rings() uint64 {
	bell := p.set.transport.(*ringTransport).bell
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&bell.producer[0]))) / 16
}

// The program rings once for each place that it is asked to ring at. It also rings where it had got
// there when it was asked, because it may have looked before it could see that.
func TestRingAlarm(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Transport: TransportRing})
	ring := p.shared(0)
	const record = uint64(recordSize + 64)
	var rang []uint64
	for _, wakeAt := range []uint64{
		0, record + 1, 2 * record, 2 * record, 4*record + 1, // missed for once, and reached
		6*record + 1, 6*record + 1, 6*record + 1, math.MaxUint64, // reached at last, and far away
	} {
		atomic.StoreUint64(&ring.WakeAt, wakeAt)
		before := p.rings()
		p.runOn(0, packetOf(64, 1), 1)
		rang = append(rang, p.rings()-before)
	}
	if want := []uint64{0, 1, 1, 0, 1, 0, 1, 0, 0}; !slices.Equal(rang, want) {
		t.Errorf("rang %v, want %v", rang, want)
	}
}

// Where other CPUs do not see the stores of one in their order, head is moved by an exchange.
func TestRingExchange(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Transport: TransportRing}, func(t transport) { t.(*ringTransport).inOrder = false })
	packet := packetOf(60, 1)
	p.run(packet, 3)
	samples, packets := p.samples()
	if len(samples) != 3 || !bytes.Equal(packets[2], packet) {
		t.Errorf("the records %+v", samples)
	}
	if !slices.ContainsFunc(p.instructions(), func(i asm.Instruction) bool { return i.OpCode.AtomicOp() == asm.Xchg.OpCode(asm.DWord).AtomicOp() }) {
		t.Error("the program has no exchange")
	}
}

// A packet that interrupts a program other than a tracer at a record is lost, and counted.
func TestRingInterrupted(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Transport: TransportRing})
	ring := p.shared(0)
	ring.Filling = 1
	p.runOn(0, packetOf(60, 1), 3)
	ring.Filling = 0
	p.runOn(0, packetOf(60, 1), 1)
	samples, _ := p.samples()
	if len(samples) != 1 || samples[0].Dropped != 3 {
		t.Errorf("the records %+v", samples)
	}
	p.expect(kernel.SamplerAccount{Seen: 4, Lost: 3, Sampled: 1})
}

// On a CPU that was not there when the rings were made, packets are lost, and counted. It is named
// once.
func TestRingLateCPU(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	p := newProgramTest(t, Options{Transport: TransportRing}, func(t transport) {
		t.(*ringTransport).cpuCount = func() int { return 1 }
	})
	if p.late == nil {
		t.Skip("this machine has one CPU")
	}
	if want := "CPU 1 was not present when the rings were created"; p.late.Error() != want {
		t.Errorf("the error %q, want %q", p.late, want)
	}
	if rings, err := p.set.transport.rings(); err != nil || rings != nil {
		t.Errorf("asked once more: %d rings, %v", len(rings), err)
	}
	p.runOn(1, packetOf(200, 1), 3)
	p.runOn(1, packetOf(80, 1), 2)
	p.runOn(0, packetOf(200, 1), 1)
	if samples, _ := p.samples(); len(samples) != 1 {
		t.Errorf("%d records", len(samples))
	}
	p.expect(kernel.SamplerAccount{Seen: 6, FilteredOut: 2, Lost: 3, Sampled: 1})
}

// A CPU that was offline for a while gets a new ring, because the kernel has taken the first ring's
// event away.
func TestPerfTransportCPUs(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Size: MinSize})
	if len(p.set.cursors) < 2 {
		t.Skip("a CPU that comes and goes needs another one beside it")
	}
	all := len(p.set.cursors)
	transport := newPerfTransport(Options{Size: MinSize}).(*perfTransport)
	transport.open(p.maps)
	online := transport.onlineCPUs()
	last := online[all-1]
	for _, step := range []struct {
		online []int
		period uint64 // of the last CPU
		want   int    // rings that are made
	}{
		{online, 1, all}, {online, 1, 0},
		{online[:all-1], 1, 1}, // at once, because the CPU has not really gone
		{online[:all-1], 1, 0}, {online, 1, 0},
		{online, 2, 1}, {online, 2, 0}, // it was offline between two looks
	} {
		transport.onlineCPUs = func() []int { return step.online }
		transport.period = func(cpu int) uint64 {
			if cpu == last {
				return step.period
			}
			return 1
		}
		if made := transport.served != nil; made && (transport.ringOf(last) == 0) != (step.period == 2 && step.want == 1) {
			t.Errorf("in the period %d the last CPU has ring %d", step.period, transport.ringOf(last))
		}
		rings, err := transport.rings()
		for _, r := range rings {
			p.set.cursors = append(p.set.cursors, newCursor(r))
		}
		if err != nil || len(rings) != step.want {
			t.Errorf("%d rings were made with the CPUs %v online, want %d; %v", len(rings), step.online, step.want, err)
		}
	}
	// The rings that the kernel does not write to any more are given back.
	m := p.set
	if err := errors.Join(m.drop()...); len(m.cursors) != 2*all || err != nil {
		t.Errorf("%d rings are there, want those of two transports for %d CPUs; %v", len(m.cursors), all, err)
	}
	// The program uses the rings that were made last, and each CPU has one.
	p.run(packetOf(60, 0), 10)
	if samples, _ := p.samples(); len(samples) != 10 {
		t.Errorf("%d of 10 records were found", len(samples))
	}
}
