package capture

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A fakeProgram is the other side of a shared ring: it writes records as bpf/sampler.c does.
type fakeProgram struct {
	shared *kernel.SamplerRing
	data   []byte
	size   uint64
}

// newFakeProgram returns a fakeProgram and a cursor on its ring.
func newFakeProgram(size int) (*fakeProgram, *cursor) {
	words := make([]uint64, (int(kernel.SamplerLimitRING_RECORDS_AT)+size+maxRingRecord)/8)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	r := newSharedRing(memory, size)
	return &fakeProgram{shared: r.shared, data: r.data, size: r.size}, newCursor(r)
}

// put writes a record, or reports false where there is no room.
func (k *fakeProgram) put(record []byte) bool {
	padded := uint64(len(record)+7) &^ 7
	if k.shared.Head+padded-k.shared.Tail > k.size {
		return false
	}
	copy(k.data[k.shared.Head&(k.size-1):], record)
	k.shared.Head += padded
	return true
}

func (k *fakeProgram) sample(s record, packet []byte) bool { return k.put(rawOf(s, packet)) }

// Records of all lengths come out as they went in, also those that go on behind the end of the
// ring, and the packets in the reader's hands are never overwritten.
func TestSharedRing(t *testing.T) {
	t.Parallel()
	k, c := newFakeProgram(4096)
	checkRing(t, c.ring, k.sample, func() {})
	if k.shared.Tail != k.shared.Head {
		t.Errorf("tail %d, head %d: not everything was freed", k.shared.Tail, k.shared.Head)
	}
}

// A record that fails the check is passed over. Behind one whose length cannot be, nothing is read
// until the program has written more.
func TestSharedRingInvalid(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	good := sampleOf(packet, 1)
	for _, test := range []struct {
		name   string
		change func(*record)
		want   []found
	}{
		{"cookie", func(s *record) { s.cookie++ }, []found{invalid, valid, nothing}},
		{"source", func(s *record) { s.source = 1 }, []found{invalid, valid, nothing}},
		{"wire", func(s *record) { s.WireLen = 59 }, []found{invalid, valid, nothing}},
		{"longer than all there is", func(s *record) { s.length, s.WireLen = 1000, 1000 }, []found{invalid, nothing, nothing}},
		{"longer than any", func(s *record) { s.length, s.WireLen = 1<<31, 1<<31 }, []found{invalid, nothing, nothing}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, c := newFakeProgram(4096)
			bad := good
			test.change(&bad)
			k.sample(bad, packet)
			k.sample(good, packet)
			c.ring.refill()
			if got := []found{c.find(), c.find(), c.find()}; !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %v", got, test.want)
			}
			k.sample(good, packet)
			c.ring.refill()
			if r, _ := c.advance(1); r == nil || !bytes.Equal(r.Data, packet) {
				t.Error("what was written later is lost")
			}
		})
	}
}

// A packet that is shorter than what pcapng.Template copies at once has memory for that: the
// shortest frames have 60 bytes at XDP.
func TestSharedRingShort(t *testing.T) {
	t.Parallel()
	k, c := newFakeProgram(4096)
	packet := packetOf(60, 1)
	k.sample(sampleOf(packet, 1), packet)
	c.ring.refill()
	packets := make([]Packet, 1)
	c.ring.begin()
	if n, _, _ := c.ring.next(packets, math.MaxUint64); n != 1 || !bytes.Equal(packets[0].Data, packet) || cap(packets[0].Data) < 64 {
		t.Errorf("%d packets, the first with %d bytes in %d: %x", n, len(packets[0].Data), cap(packets[0].Data), packets[0].Data)
	}
}

// A ring asks for its reader when a quarter of it is filled, or at a record. Where that has
// happened already, it says so. That a record was asked for can be counted on from the second time.
func TestSharedRingArm(t *testing.T) {
	t.Parallel()
	packet := packetOf(200, 1) // 304 bytes with its facts
	for at, want := range map[alarm]uint64{onPart: 1024, onRecord: 1} {
		k, c := newFakeProgram(4096)
		r := c.ring.(*sharedRing)
		r.refill()
		first := at
		if at == onRecord {
			first = unsure
		}
		for _, says := range []alarm{first, at, at} {
			if got := r.arm(at); got != says || k.shared.WakeAt != want {
				t.Errorf("alarm %d: an empty ring asks at %d, want %d, and says %d, want %d", at, k.shared.WakeAt, want, got, says)
			}
		}
		for range 5 {
			k.sample(sampleOf(packet, 1), packet)
		}
		if got := r.arm(at); got != never {
			t.Errorf("alarm %d: a ring with %d new bytes says %d", at, k.shared.Head, got)
		}
		for r.refill(); c.find() == valid; {
		}
		r.release()
		if got := r.arm(at); got != first || k.shared.WakeAt != k.shared.Head+want {
			t.Errorf("alarm %d: when all is read it asks at %d, want %d more than %d", at, k.shared.WakeAt, want, k.shared.Head)
		}
	}
}

// A ring is complete but for what comes now, unless a record is being written: then it is as
// complete as when a look last found none, or one that had been begun later.
func TestSharedRingComplete(t *testing.T) {
	t.Parallel()
	k, c := newFakeProgram(4096)
	r := c.ring.(*sharedRing)
	at := func(when string, now, want time.Duration) {
		t.Helper()
		if got := time.Duration(r.complete(int64(now))); got != want-promptTime {
			t.Errorf("%s: complete until %v, want %v", when, got, want-promptTime)
		}
	}
	const ms = time.Millisecond
	packet := packetOf(60, 1)
	at("at rest", 1000*ms, 1000*ms)
	k.shared.Filling = 1
	at("a record is being written", 1001*ms, 1000*ms)
	at("and still is", 1100*ms, 1000*ms)
	k.sample(sampleOf(packet, 1), packet)
	at("that one is there, and the next is being written", 1101*ms, 1100*ms)
	at("which takes long", 1349*ms, 1100*ms)
	at("and longer than any record is waited for", 1400*ms, 1400*ms-holdTime)
	k.shared.Filling = 0
	at("at rest again", 1401*ms, 1401*ms)

	k.shared.Filling = 1
	stop := make(chan struct{})
	defer close(stop)
	go func() { // records are written, one right after the other
		for head := k.shared.Head; ; head += 8 {
			select {
			case <-stop:
				return
			default:
				atomic.StoreUint64(&k.shared.Head, head)
			}
		}
	}()
	testnet.WaitFor(t, "a record that began after the question", func() bool {
		return r.complete(int64(1500*ms)) == int64(1500*ms-promptTime)
	})
}

// sharedOf is the shared ring of a CPU.
func sharedOf(k *sampler, cpu int) *kernel.SamplerRing {
	return (*kernel.SamplerRing)(unsafe.Pointer(&k.transport.(*ringTransport).memory(cpu)[0]))
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

// rings counts how often the doorbell was rung.
func (p *programTest) rings() uint64 {
	bell := p.sampler.transport.(*ringTransport).bell
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&bell.producer[0]))) / 16
}

// The program rings once for each place that it is asked to ring at. It also rings where it had got
// there when it was asked, because it may have looked before it could see that.
func TestRingAlarm(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Transport: TransportRing})
	ring := sharedOf(p.sampler, 0)
	const record = uint64(recordSize + 64)
	var rang []uint64
	for _, wakeAt := range []uint64{
		0, record + 1, 2 * record, 2 * record, 4*record + 1, // missed for once, and reached
		6*record + 1, 6*record + 1, 6*record + 1, math.MaxUint64, // reached at last, and far away
	} {
		atomic.StoreUint64(&ring.WakeAt, wakeAt)
		before := p.rings()
		p.runOn(0, 1, packetOf(64, 1), 1)
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
	packet := packetOf(64, 1)
	p.run(1, packet, 3)
	samples, packets := p.samples()
	if len(samples) != 3 || !bytes.Equal(packets[2], packet) {
		t.Errorf("the records %+v", samples)
	}
	if !slices.ContainsFunc(p.instructions(1), func(i asm.Instruction) bool { return i.OpCode.AtomicOp() == asm.Xchg.OpCode(asm.DWord).AtomicOp() }) {
		t.Error("the program has no exchange")
	}
}

// A packet that interrupts a program other than a tracer at a record is lost, and counted.
func TestRingInterrupted(t *testing.T) {
	t.Parallel()
	p := newProgramTest(t, Options{Transport: TransportRing})
	ring := sharedOf(p.sampler, 0)
	ring.Filling = 1
	p.runOn(0, 1, packetOf(60, 1), 3)
	ring.Filling = 0
	p.runOn(0, 1, packetOf(60, 1), 1)
	samples, _ := p.samples()
	if len(samples) != 1 || samples[0].Dropped != 3 {
		t.Errorf("the records %+v", samples)
	}
	p.expect(programAccount{}, counted(Account{Seen: 4, Lost: 3}, 1))
}

// On a CPU that was not there when the rings were made, packets are lost, and counted. It is named
// once.
func TestRingLateCPU(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	p := newProgramTest(t, Options{Transport: TransportRing, Filter: "greater 100"}, func(t transport) {
		t.(*ringTransport).present = func() int { return 1 }
	})
	if p.late == nil {
		t.Skip("this machine has one CPU")
	}
	if want := "CPU 1 was not present when the rings were created"; p.late.Error() != want {
		t.Errorf("the error %q, want %q", p.late, want)
	}
	if rings, err := p.sampler.transport.rings(); err != nil || rings != nil {
		t.Errorf("asked once more: %d rings, %v", len(rings), err)
	}
	p.runOn(1, 0, packetOf(200, 1), 3)
	p.runOn(1, 0, packetOf(60, 1), 2)
	p.runOn(0, 0, packetOf(200, 1), 1)
	if samples, _ := p.samples(); len(samples) != 1 {
		t.Errorf("%d records", len(samples))
	}
	p.expect(counted(Account{Seen: 6, FilteredOut: 2, Lost: 3}, 1), programAccount{})
}

// TransportAuto becomes what can be had.
func TestTransportAuto(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for buffer, want := range map[int]Transport{0: TransportRing, 2 * maxRingSize: TransportPerf} {
		if buffer != 0 && testnet.Emulated() {
			continue // its memory has no room for such rings
		}
		o := Options{Interfaces: []string{"lo"}, Transport: TransportAuto, Buffer: buffer}
		if err := o.checkRings(); err != nil || o.Transport != want {
			t.Errorf("with rings of %d bytes it becomes %v, want %v; %v", buffer, o.Transport, want, err)
		}
	}
	o := Options{Interfaces: []string{"lo"}, Transport: TransportRing, Buffer: 2 * maxRingSize}
	want := "buffer of 512 MiB per CPU: the transport ring allows at most 256 MiB"
	if err := o.checkRings(); err == nil || err.Error() != want {
		t.Errorf("the error %v, want %s", err, want)
	}
}

// Whatever is in the shared memory, the reader comes to an end and reads nothing outside it.
func FuzzSharedRing(f *testing.F) {
	k, _ := newFakeProgram(4096)
	packet := packetOf(60, 1)
	k.sample(sampleOf(packet, 1), packet)
	f.Add(k.data[:256], k.shared.Head)
	length := make([]byte, recordSize)
	binary.LittleEndian.PutUint32(length[4:], uint32(MaxSnapLen))
	f.Add(length, uint64(recordSize))
	f.Fuzz(func(t *testing.T, data []byte, head uint64) {
		k, c := newFakeProgram(4096)
		copy(k.data, data)
		k.shared.Head = head &^ 7
		readsSafely(t, c, 1000) // head may say that there is more
	})
}
