package capture

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A wait that brings nothing is followed by one that the next packet ends, and a wait that brings
// packets by one in which they collect.
func TestAlarm(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	var asked []bool // whether the ring is to wake the reader for a record
	empty := new(ring.List)
	empty.Armed = func(record bool) (missed bool) {
		if asked = append(asked, record); len(asked) == 2 { // there is a record from the third look on
			empty.Records = [][]byte{ring.NewRecord(packet, 1).Raw(packet)}
		}
		return false
	}
	openStill(t, Options{Count: 1}, ring.NewLists(empty).New, hookWithOne()).run(t)
	same(t, []bool{false, true, true, false}, asked)
}

// A record that nothing wakes the reader for, because it came when the ring was asked to tell of
// it, is read soon all the same.
func TestAlarmUnsure(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	const tries = 20 // a busy machine may make some of them slow
	for range tries {
		var at time.Time // of the record
		deaf := new(ring.List)
		deaf.Armed = func(record bool) (missed bool) {
			if missed = record && at.IsZero(); missed {
				deaf.Records, at = [][]byte{ring.NewRecord(packet, 1).Raw(packet)}, time.Now()
			}
			return missed
		}
		s := openStill(t, Options{}, ring.NewLists(deaf).New, hookWithOne())
		_, err := s.reader.Read(make([]Packet, 1))
		must(t, err)
		if time.Since(at) < ring.FlushInterval/2 {
			return
		}
	}
	t.Errorf("in %d tries it always took %v or more", tries, ring.FlushInterval/2)
}

// The first packet after silence wakes the reader, which would look by itself after 250 ms.
func TestSilence(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	sender := testnet.MustSender(t, pair)
	s := openAt(t, pair.Rx, Options{Interfaces: []string{pair.RxName}, Transport: TransportRing})
	came := make(chan struct{})
	go func() {
		defer close(came)
		for range s.Packets(t.Context()) {
			came <- struct{}{}
		}
	}()
	shared := sharedRings(t, s.sampler)
	isArmed := func() bool {
		for _, ring := range shared {
			if atomic.LoadUint64(&ring.WakeAt) != atomic.LoadUint64(&ring.Head)+1 {
				return false
			}
		}
		return true
	}
	const tries = 20
	for quick := range tries {
		// The reader has looked twice by then, and sleeps for the rest of its longest wait.
		var since time.Time
		testnet.WaitFor(t, "the reader to sleep until a packet comes", func() bool {
			if !isArmed() {
				since = time.Time{}
			} else if since.IsZero() {
				since = time.Now()
			}
			return !since.IsZero() && time.Since(since) > 10*ring.SettleTime
		})
		before := time.Now()
		must(t, sender.Send(testnet.UDPFrame(64, uint64(quick))))
		<-came
		if time.Since(before) < ring.FlushInterval/2 {
			break
		}
		if quick == tries-1 {
			t.Errorf("in %d tries it always took %v or more", tries, ring.FlushInterval/2)
		}
	}
	s.Stop()
	for range came {
	}
}
