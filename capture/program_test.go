package capture

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A programTest is the sampling programs of two sources with their rings, not attached to anything.
type programTest struct {
	t       *testing.T
	sampler *probe.Sampler
	roster  *probe.Roster
	rings   *ring.Set
	hooks   []probe.Hook
}

// newProgramTest loads the programs.
func newProgramTest(t *testing.T, o Options) *programTest {
	t.Helper()
	testnet.RequireRoot(t)
	o.Interfaces = []string{"lo"}
	o, err := o.withDefaults()
	must(t, err)
	p := &programTest{t: t}
	for i, name := range []string{"lo", "other"} {
		ifi := xdp.Interface{Index: i + 1, Name: name}
		at := probe.Point{Interface: ifi}
		must(t, o.probe().Compile(&at))
		hooks, err := o.probe().ChooseAt(at)
		must(t, err)
		p.hooks = append(p.hooks, hooks...)
	}
	p.roster, p.rings = probe.NewRoster(p.hooks, 0, nil), ring.New(o.rings())
	p.sampler, err = probe.New(o.probe(), p.roster, p.rings)
	must(t, err)
	t.Cleanup(p.close)
	must(t, p.sampler.LoadAll(p.hooks))
	must(t, p.rings.Refresh())
	return p
}

func (p *programTest) close() {
	for _, err := range []error{probe.CloseAll(p.hooks), p.sampler.Close()} {
		if err != nil {
			p.t.Error(err)
		}
	}
}

func (p *programTest) program(source int) *ebpf.Program {
	if h, ok := p.hooks[source].(*probe.TCHook); ok {
		return h.Programs[0]
	}
	return p.hooks[source].(*probe.XDPHook).Programs[0]
}

// instructions are those of a source's program, as the verifier has left them.
func (p *programTest) instructions(source int) asm.Instructions {
	p.t.Helper()
	info, err := p.program(source).Info()
	must(p.t, err)
	all, err := info.Instructions()
	must(p.t, err)
	return all
}

// run gives the packet to the program of a source n times and returns the last verdict. Each time
// is a system call of its own, because a call that a signal interrupts starts again from the first
// time.
func (p *programTest) run(source int, packet []byte, n int) (verdict xdp.Verdict) {
	p.t.Helper()
	for range n {
		v, err := p.program(source).Run(&ebpf.RunOptions{Data: packet})
		must(p.t, err)
		verdict = xdp.Verdict(v)
	}
	return verdict
}

// samples takes everything out of the rings.
func (p *programTest) samples() (samples []Packet, packets [][]byte) {
	p.t.Helper()
	rings := p.rings
	rings.Gather(math.MaxUint64)
	group := make([]Packet, ring.GroupSize)
	for rings.IsReady() {
		for _, packet := range group[:rings.Next(group)] {
			if packet.Data == nil || int(packet.Source) >= len(p.hooks) {
				p.t.Error("an invalid record")
				continue
			}
			facts := *packet.Facts
			samples = append(samples, Packet{Facts: &facts, Source: packet.Source})
			packets = append(packets, bytes.Clone(packet.Data))
		}
	}
	rings.Release()
	return samples, packets
}

// sharedRings are the shared rings of all CPUs.
func sharedRings(tb testing.TB, k *probe.Sampler) (all []*kernel.SamplerRing) {
	tb.Helper()
	m := k.Maps[kernel.SamplerMapRings]
	memory, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries()*m.ValueSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(tb, err)
	tb.Cleanup(func() { unix.Munmap(memory) })
	for at := 0; at < len(memory); at += int(m.ValueSize()) {
		all = append(all, (*kernel.SamplerRing)(unsafe.Pointer(&memory[at])))
	}
	return all
}

func packetOf(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)
	}
	return b
}

// runOn is run on one CPU.
func (p *programTest) runOn(cpu, source int, packet []byte, n int) {
	p.t.Helper()
	err := machine.Quiet(cpu, func() error {
		p.run(source, packet, n)
		return nil
	})
	must(p.t, err)
}

func (p *programTest) accounts() []probe.ProgramCounts {
	p.t.Helper()
	accounts, err := p.roster.Accounts()
	must(p.t, err)
	return accounts
}

// expect compares the accounts of the sources.
func (p *programTest) expect(want ...probe.ProgramCounts) {
	p.t.Helper()
	same(p.t, want, p.accounts())
}

// counted is the account of a program that saw packets and sent records of some.
func counted(a Account, sent uint64) probe.ProgramCounts {
	return probe.ProgramCounts{Account: a, Sent: sent}
}

// eachTransport runs a test for every kind of transport, side by side.
func eachTransport(t *testing.T, test func(t *testing.T, transport Transport)) {
	for _, transport := range Transports() {
		t.Run(transport.String(), func(t *testing.T) {
			t.Parallel()
			test(t, transport)
		})
	}
}

// For each packet the program returns this verdict, sends this record and counts exactly this.
func TestProgram(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport Transport) {
		for _, d := range []Direction{In, Out} {
			t.Run(d.String(), func(t *testing.T) {
				t.Parallel()
				testProgram(t, transport, d)
			})
		}
	})
}

// maxSent is how many bytes BPF_PROG_RUN gives at least to a program at egress.
const maxSent = 2048

// next is TC_ACT_UNSPEC, with which a program at egress leaves the verdict to others.
const next = xdp.Verdict(math.MaxUint32)

func testProgram(t *testing.T, transport Transport, d Direction) {
	sizes := []int{14, 31, 32, 33, 60, 64, 65, 96, 97, 127, 128, 129, 256, 257, 512, 513, 1514, 9014}
	for i, test := range []struct {
		options Options
		verdict xdp.Verdict
	}{
		{Options{}, xdp.Pass},
		{Options{SnapLen: 1}, xdp.Pass},
		{Options{SnapLen: 96}, xdp.Pass},
		{Options{Sink: true}, xdp.Drop},
	} {
		if d == Out && test.options.Sink || !testnet.Shared(i+int(transport)) {
			continue
		}
		t.Run(fmt.Sprintf("snaplen %d, sink %v", test.options.SnapLen, test.options.Sink), func(t *testing.T) {
			t.Parallel()
			if test.options.Transport, test.options.Direction = transport, d; d == Out {
				test.verdict = next
			}
			b := newProgramTest(t, test.options)
			numbers := make(map[uint64]uint64) // of packets, by CPU
			for n, size := range sizes {
				if d == Out && size > maxSent {
					break
				}
				packet, length := packetOf(size, 3), size
				if limit := int(test.options.SnapLen); limit > 0 {
					length = min(length, limit)
				}
				before, err := machine.Monotonic()
				must(t, err)
				if got := b.run(1, packet, 1); got != test.verdict {
					t.Errorf("%d bytes: verdict %v, want %v", size, got, test.verdict)
				}
				after, _ := machine.Monotonic()
				samples, packets := b.samples()
				if len(samples) != 1 {
					t.Fatalf("%d bytes: %d records", size, len(samples))
				}
				s := samples[0]
				if s.Time < before || s.Time > after {
					t.Errorf("%d bytes: stamp %d, run between %d and %d", size, s.Time, before, after)
				}
				cpu := s.ID >> 52
				numbers[cpu]++
				if s.ID&(1<<52-1) != 1<<40|numbers[cpu] || cpu >= uint64(ebpf.MustPossibleCPU()) {
					t.Errorf("%d bytes: packet id %x, want packet %d of a CPU at hook 1", size, s.ID, numbers[cpu])
				}
				if int(s.WireLen) != size || s.Source != 1 || s.Queue != 0 || s.Weight != 1 {
					t.Errorf("%d bytes: record %+v", size, s)
				}
				same(t, packet[:length], packets[0], "%d bytes", size)
				sent := uint64(n + 1)
				b.expect(probe.ProgramCounts{}, counted(Account{Seen: sent}, sent))
			}
		})
	}
}

// The longest record that the transport takes gets through. Of perf, one byte more vanishes without
// any error, as the comment in transport_perf.h says.
func TestProgramLongest(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport Transport) {
		b := newProgramTest(t, Options{Transport: transport})
		// BPF_PROG_RUN takes no packet of more than 17 pages besides its beginning.
		for _, n := range []int{65412, 65535, 65536, 70_000} {
			if n > transport.MaxSnapLen() {
				continue
			}
			packet := packetOf(n, 5)
			b.run(0, packet, 1)
			samples, packets := b.samples()
			if len(samples) != 1 || !bytes.Equal(packets[0], packet) {
				t.Errorf("%d records of a packet with %d bytes", len(samples), n)
			}
		}
	})
}

// Packets that find the ring full are lost, and counted by the program; the next record says how
// many.
func TestProgramLost(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport Transport) {
		b := newProgramTest(t, Options{Buffer: MinBuffer, Transport: transport})
		const frames = 10_000
		b.run(0, packetOf(64, 0), frames)
		samples, _ := b.samples()
		lost := uint64(frames - len(samples))
		b.expect(counted(Account{Seen: frames, Lost: lost}, uint64(len(samples))), probe.ProgramCounts{})
		if lost == 0 {
			t.Error("nothing was lost")
		}
	})
}

// Of every n packets in a row on a CPU exactly one is kept, and each of the n places is equally
// likely.
func TestProgramSample(t *testing.T) {
	t.Parallel()
	for _, n := range []uint32{2, 10, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			const frames = 10_000
			b := newProgramTest(t, Options{Sample: n})
			runtime.LockOSThread() // not unlocked: the thread, bound to one CPU, ends here
			one := unix.CPUSet{}
			one.Set(0)
			must(t, unix.SchedSetaffinity(0, &one))
			b.run(0, packetOf(64, 0), frames)
			samples, _ := b.samples()
			kept := frames / uint64(n)
			b.expect(counted(Account{Seen: frames, NotSampled: frames - kept}, kept), probe.ProgramCounts{})
			places := make([]float64, n)
			for i, s := range samples {
				number := s.ID&(1<<40-1) - 1
				if number/uint64(n) != uint64(i) {
					t.Fatalf("sample %d is packet %d", i, number)
				}
				places[number%uint64(n)]++
			}
			expected := float64(len(samples)) / float64(n)
			for place, count := range places {
				if expected > 100 && math.Abs(count-expected) > 5*math.Sqrt(expected) {
					t.Errorf("the packet at place %d of %d was kept %v times, want about %v", place, n, count, expected)
				}
			}
		})
	}
}

func ethernet(etherType uint16, payload ...byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, byte(etherType >> 8), byte(etherType)}
	return append(append(b, payload...), make([]byte, 60)...)
}

// Options.SampleFlows keeps whole flows, the same ones in both directions, and one in N of them.
func TestProgramSampleFlows(t *testing.T) {
	t.Parallel()
	b := newProgramTest(t, Options{SampleFlows: 10})
	out := testnet.TxToRx()
	kept := 0
	const flows = 2000
	for i := range uint16(flows) {
		before := b.accounts()[0].Sent
		for range 3 {
			b.run(0, out.UDP(1000+i, 53, nil), 1)
			b.run(0, out.Reverse().UDP(53, 1000+i, nil), 1)
		}
		switch n := b.accounts()[0].Sent - before; n {
		case 0:
		case 6:
			kept++
		default:
			t.Fatalf("%d of the 6 packets of flow %d were kept", n, i)
		}
		b.samples()
	}
	if a := b.accounts()[0]; a.Seen != 6*flows || a.Seen != a.Sent+a.NotSampled {
		t.Errorf("the account %+v", a)
	}
	if sigma := math.Sqrt(flows * 0.1 * 0.9); math.Abs(float64(kept)-flows*0.1) > 5*sigma {
		t.Errorf("%d of %d flows were kept", kept, flows)
	}
}

// A flow that comes to two hooks is counted at each by itself.
func TestProgramFirst(t *testing.T) {
	t.Parallel()
	b := newProgramTest(t, Options{First: 3})
	for port := range uint16(5) {
		b.run(0, testnet.TxToRx().UDP(1000+port, 53, nil), 10)
	}
	b.run(1, testnet.TxToRx().UDP(1000, 53, nil), 10)
	b.expect(counted(Account{Seen: 50, NotSampled: 35}, 15), counted(Account{Seen: 10, NotSampled: 7}, 3))
}

// The token bucket has tokens for one packet at the start, and for one second's packets at most.
func TestProgramMaxRate(t *testing.T) {
	t.Parallel()
	const rate = 2
	start := time.Now()
	b := newProgramTest(t, Options{MaxRate: rate})
	b.run(0, packetOf(64, 0), 50)
	// A busy machine may take so long until here that another packet has been paid for.
	most := 1 + uint64(rate*time.Since(start).Seconds())
	if a := b.accounts()[0]; a.Sent < 1 || a.Sent > most || a.NotSampled != 50-a.Sent {
		t.Errorf("at once, when at most %d are paid for: %+v", most, a)
	}
	// The bucket is now as if no packet had come since the machine was started.
	start = time.Now()
	must(t, b.sampler.Maps[kernel.SamplerMapBucket].Put(uint32(0), uint64(0)))
	b.run(1, packetOf(64, 0), 50) // all sources share the bucket
	most = 2 + uint64(rate*time.Since(start).Seconds())
	if a := b.accounts()[1]; a.Sent < 2 || a.Sent > most || a.NotSampled != 50-a.Sent {
		t.Errorf("after a long time, when at most %d are paid for: %+v", most, a)
	}
}

// A packet that the filter does not match is counted as FilteredOut and nowhere else.
func TestProgramFilter(t *testing.T) {
	t.Parallel()
	b := newProgramTest(t, Options{Filter: "udp dst port 53 and len < 100", First: 1})
	out := testnet.TxToRx()
	for _, packet := range [][]byte{
		out.UDP(1000, 53, nil),
		out.UDP(1000, 53, nil),                  // not the first
		out.UDP(1000, 54, nil),                  // another port
		out.UDP(1000, 53, make([]byte, 100)),    // too long
		out.UDP(1001, 53, nil)[:36],             // the port is cut off
		testnet.VLAN(out.UDP(1002, 53, nil), 5), // the tag is in the frame
	} {
		b.run(0, packet, 1)
	}
	b.expect(counted(Account{Seen: 6, FilteredOut: 4, NotSampled: 1}, 1), probe.ProgramCounts{})
	b = newProgramTest(t, Options{Filter: "udp dst port 53", VLANAware: true})
	b.run(0, testnet.VLAN(out.UDP(1002, 53, nil), 5), 1)
	if a := b.accounts()[0]; a.Sent != 1 {
		t.Errorf("VLAN-aware: %+v", a)
	}
}
