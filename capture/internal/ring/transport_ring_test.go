package ring

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

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
	good := NewRecord(packet, 1)
	for _, test := range []struct {
		name   string
		change func(*Record)
		want   []found
	}{
		{"cookie", func(s *Record) { s.Cookie++ }, []found{invalid, valid, nothing}},
		{"source", func(s *Record) { s.Source = 1 }, []found{invalid, valid, nothing}},
		{"wire", func(s *Record) { s.WireLen = 59 }, []found{invalid, valid, nothing}},
		{"longer than all there is", func(s *Record) { s.Length, s.WireLen = 1000, 1000 }, []found{invalid, nothing, nothing}},
		{"longer than any", func(s *Record) { s.Length, s.WireLen = 1<<31, 1<<31 }, []found{invalid, nothing, nothing}},
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
	data := packetOf(60, 1)
	k.sample(NewRecord(data, 1), data)
	c.ring.refill()
	packets := make([]packet.Packet, 1)
	c.ring.begin()
	if n, _, _ := c.ring.next(packets, math.MaxUint64); n != 1 || !bytes.Equal(packets[0].Data, data) || cap(packets[0].Data) < 64 {
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
			k.sample(NewRecord(packet, 1), packet)
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
	k.sample(NewRecord(packet, 1), packet)
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

// TransportAuto becomes what can be had.
func TestTransportAuto(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for buffer, want := range map[int]Transport{0: TransportRing, 2 * maxRingSize: TransportPerf} {
		if buffer != 0 && testnet.Emulated() {
			continue // its memory has no room for such rings
		}
		o := Options{Transport: TransportAuto, Size: buffer}
		if err := o.Fit(); err != nil || o.Transport != want {
			t.Errorf("with rings of %d bytes it becomes %v, want %v; %v", buffer, o.Transport, want, err)
		}
	}
	o := Options{Transport: TransportRing, Size: 2 * maxRingSize}
	want := "buffer of 512 MiB per CPU: the transport ring allows at most 256 MiB"
	if err := o.Fit(); err == nil || err.Error() != want {
		t.Errorf("the error %v, want %s", err, want)
	}
}

// Whatever is in the shared memory, the reader comes to an end and reads nothing outside it.
func FuzzSharedRing(f *testing.F) {
	k, _ := newFakeProgram(4096)
	packet := packetOf(60, 1)
	k.sample(NewRecord(packet, 1), packet)
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
