package capture

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An alarmRing is empty at first. It notes which alarms it is asked for.
type alarmRing struct {
	listRing
	asked []alarm
	later [][]byte // the records that it has from the third look on
}

func (r *alarmRing) arm(at alarm) alarm {
	if r.asked = append(r.asked, at); len(r.asked) == 2 {
		r.records = r.later
	}
	return onPart // so that the reader looks again soon
}

// A wait that brings nothing is followed by one that the next packet ends, and a wait that brings
// packets by one in which they collect.
func TestAlarm(t *testing.T) {
	testnet.RequireRoot(t)
	packet := packetOf(60, 1)
	ring := &alarmRing{later: [][]byte{recordOf(sampleOf(packet, 1), packet)}}
	o, err := Options{Interfaces: []string{"unused"}, Count: 1}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(o, []hook{&stillHook{account: samplerAccount{Seen: 1, Sampled: 1}}}, listed(ring))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), new(memory)); err != nil {
		t.Fatal(err)
	}
	want := []alarm{onPart, onRecord, onRecord, onPart}
	if diff := cmp.Diff(want, ring.asked); diff != "" {
		t.Error(diff)
	}
}

// A deafRing gets a record at the very moment when it is first asked to tell of one, and does not.
type deafRing struct {
	listRing
	record []byte
	at     time.Time
}

func (r *deafRing) arm(at alarm) alarm {
	if at == onRecord && r.at.IsZero() {
		r.records, r.at = [][]byte{r.record}, time.Now()
		return unsure
	}
	return at
}

// A timedMemory notes when packets came, and ends the session.
type timedMemory struct {
	memory
	at  time.Time
	end context.CancelFunc
}

func (m *timedMemory) Write(packets []Packet) error {
	m.at = time.Now()
	m.end()
	return m.memory.Write(packets)
}

// A record that nothing wakes the reader for, because it came when the ring was asked to tell of
// it, is read soon all the same.
func TestAlarmUnsure(t *testing.T) {
	testnet.RequireRoot(t)
	packet := packetOf(60, 1)
	o, err := Options{Interfaces: []string{"unused"}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	const tries = 20 // a busy machine may make some of them slow
	for range tries {
		ring := &deafRing{record: recordOf(sampleOf(packet, 1), packet)}
		s, err := open(o, []hook{&stillHook{account: samplerAccount{Seen: 1, Sampled: 1}}}, listed(ring))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		m := &timedMemory{end: end}
		if _, err := s.Run(ctx, m); err != nil { // it returns later, because the end waits for the kernel
			t.Fatal(err)
		}
		if m.at.Sub(ring.at) < flushInterval/2 {
			return
		}
	}
	t.Errorf("in %d tries it always took %v or more", tries, flushInterval/2)
}

// The first packet after silence wakes the reader, which would look by itself after 250 ms.
func TestSilence(t *testing.T) {
	pair := testnet.MustPair(t, testnet.PairOptions{})
	sender := testnet.MustSender(t, pair)
	var s *Session
	err := pair.Rx.Do(func() (err error) {
		s, err = Open(Options{Interfaces: []string{pair.RxName}, Transport: TransportRing})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	came := make(chan struct{})
	go func() {
		defer close(came)
		for range s.Packets(t.Context()) {
			came <- struct{}{}
		}
	}()
	rings := s.sampler.transport.(*ringTransport)
	isArmed := func() bool {
		for cpu := range rings.cpus {
			ring := (*samplerRing)(unsafe.Pointer(&rings.memory(cpu)[0]))
			if atomic.LoadUint64(&ring.WakeAt) != atomic.LoadUint64(&ring.Head)+1 {
				return false
			}
		}
		return true
	}
	const tries = 20
	for quick := range tries {
		// The reader has looked twice by then, and sleeps for the rest of idleInterval.
		var since time.Time
		testnet.WaitFor(t, "the reader to sleep until a packet comes", func() bool {
			if !isArmed() {
				since = time.Time{}
			} else if since.IsZero() {
				since = time.Now()
			}
			return !since.IsZero() && time.Since(since) > 10*settleTime
		})
		before := time.Now()
		if err := sender.Send(testnet.UDPFrame(64, uint64(quick))); err != nil {
			t.Fatal(err)
		}
		<-came
		if time.Since(before) < flushInterval/2 {
			break
		}
		if quick == tries-1 {
			t.Errorf("in %d tries it always took %v or more", tries, flushInterval/2)
		}
	}
	s.Stop()
	for range came {
	}
}
