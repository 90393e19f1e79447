package capture

import (
	"sync/atomic"
	"testing"
	"time"

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
	t.Parallel()
	packet := packetOf(60, 1)
	ring := &alarmRing{later: [][]byte{rawOf(sampleOf(packet, 1), packet)}}
	openStill(t, Options{Count: 1}, listed(ring), hookWithOne()).run(t)
	want := []alarm{onPart, onRecord, onRecord, onPart}
	same(t, want, ring.asked)
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

// A record that nothing wakes the reader for, because it came when the ring was asked to tell of
// it, is read soon all the same.
func TestAlarmUnsure(t *testing.T) {
	t.Parallel()
	packet := packetOf(60, 1)
	const tries = 20 // a busy machine may make some of them slow
	for range tries {
		ring := &deafRing{record: rawOf(sampleOf(packet, 1), packet)}
		s := openStill(t, Options{}, listed(ring), hookWithOne())
		_, err := s.reader.read(make([]Packet, 1))
		must(t, err)
		if time.Since(ring.at) < flushInterval/2 {
			return
		}
	}
	t.Errorf("in %d tries it always took %v or more", tries, flushInterval/2)
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
	isArmed := func() bool {
		for cpu := range s.sampler.transport.(*ringTransport).cpus {
			ring := sharedOf(s.sampler, cpu)
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
		must(t, sender.Send(testnet.UDPFrame(64, uint64(quick))))
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
