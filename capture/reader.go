package capture

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// How long a packet may lie in a ring that its CPU does not fill.
	flushInterval = 50 * time.Millisecond
	// Between taking its time stamp and sending its record a program may be held up: only what is
	// older than this is put in order with the other CPUs' records. A CPU held up for longer
	// has its packet stamped with the time of the one before it in the session.
	settleTime = time.Millisecond
	// How long to wait, once detached, for records that the counters promise.
	settleLimit = time.Second
)

// A tally is what the reader counts of one source.
type tally struct {
	captured, bytes, invalid, passedOver uint64
}

// Read waits for the next packet and puts it into p. After Stop, or when Options.Count is reached,
// it returns the packets that were on their way and then io.EOF; after an interface was deleted, an error
// that wraps ErrInterfaceGone instead. It allocates nothing.
func (s *Session) Read(p *Packet) error {
	for {
		if s.err != nil {
			return s.err
		}
		if !s.Pending() {
			s.err = s.round()
			continue
		}
		if s.take(p) {
			return nil
		}
	}
}

// Pending tells whether Read has a packet at hand, so that it will not wait: when it has not, it is
// time to flush an output.
func (s *Session) Pending() bool {
	return len(s.order) > 0 && s.order[0].rec.TimeNs <= s.horizon
}

// take fills p with the oldest sample. It reports false for one that is not to be returned.
func (s *Session) take(p *Packet) bool {
	r := s.order[0]
	t := &s.tally[r.rec.Source]
	taken := s.options.Count == 0 || s.captured < s.options.Count
	if taken {
		// Field by field: the compiler makes a literal elsewhere and copies it, which costs as much as all of this.
		p.Data = r.packet
		p.Time = s.clock.stamp(r.rec.TimeNs)
		p.WireLen = int(r.rec.WireLen)
		p.Interface = int(r.rec.Source)
		p.Queue = r.rec.RxQueue
		p.ID = r.rec.PacketId
		p.Verdict = Verdict(r.rec.Verdict)
		p.Dropped = r.dropped()
		t.captured++
		t.bytes += uint64(len(r.packet))
		s.captured++
	} else {
		t.passedOver++
	}
	s.taken++
	if s.advance(r) {
		s.order.fixFirst()
	} else {
		s.order.popFirst()
	}
	if taken && s.captured == s.options.Count {
		s.Stop()
	}
	return taken
}

// advance moves the ring to its next sample, counting invalid records on the way.
func (s *Session) advance(r *ring) bool {
	for {
		switch r.advance() {
		case valid:
			return true
		case nothing:
			return false
		}
		// Whose record it was is not known if even its head is wrong.
		t := &s.tally[0]
		if int(r.rec.Source) < len(s.tally) {
			t = &s.tally[r.rec.Source]
		}
		t.invalid++
		s.taken++
	}
}

// round waits until there is a packet whose place in the order is final, or the session has ended.
func (s *Session) round() error {
	s.publish()
	for _, r := range s.rings {
		r.release()
	}
	for {
		detached := s.detached.Load() // before the rings: what was sent until then is found below
		now, err := gettime(unix.CLOCK_MONOTONIC)
		if err != nil {
			return err
		}
		s.clock.refresh(now)
		s.horizon = uint64(now - int64(settleTime))
		drain := detached != 0 && now-detached > int64(settleTime)
		if drain {
			s.horizon = math.MaxUint64
		}
		s.gather()
		switch {
		case s.Pending():
			return nil
		case drain && (s.settled() || now-detached > int64(settleLimit)):
			return s.end()
		case detached != 0:
			time.Sleep(settleTime)
		default:
			if err := s.wait(); err != nil {
				return err
			}
		}
	}
}

// gather puts every ring that has a sample into the order.
func (s *Session) gather() {
	for _, r := range s.rings {
		idle := r.idle()
		r.refill()
		if idle && s.advance(r) {
			s.order.push(r)
		}
	}
}

// wait sleeps until a ring has filled up to its watermark, it is time to look anyway, an interface
// has gone, or Stop was called.
func (s *Session) wait() error {
	timeout := flushInterval
	if s.options.Immediate && len(s.order) > 0 || slices.ContainsFunc(s.rings, (*ring).isFilling) {
		timeout = settleTime
	}
	var events [8]unix.EpollEvent
	n, err := unix.EpollWait(s.poll, events[:], int(timeout.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for the rings: %w", err)
	}
	for _, event := range events[:max(n, 0)] {
		if int(event.Fd) != s.watcher.FD() {
			continue
		}
		if gone := s.watcher.Gone(); gone != 0 {
			s.cause = fmt.Errorf("interface %s %w", s.sampler.interfaceName(gone), ErrInterfaceGone)
			s.Stop()
		}
	}
	return nil
}

// settled tells whether every record that the programs sent has been taken out of the rings.
func (s *Session) settled() bool {
	accounts, err := s.sampler.accounts()
	if err != nil {
		return false
	}
	var sent uint64
	for _, a := range accounts {
		sent += a.Sampled
	}
	return sent == s.taken
}

// end closes the account.
func (s *Session) end() error {
	s.publish()
	accounts, err := s.sampler.accounts()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	final := s.count(accounts)
	for i, a := range accounts {
		t := s.published[i]
		// Nothing, unless a record was promised and not seen within settleLimit.
		final[i].Lost += a.Sampled - t.captured - t.invalid - t.passedOver
	}
	stats := total(final)
	s.final = &stats
	if s.cause != nil {
		return s.cause
	}
	return io.EOF
}

func (s *Session) publish() {
	s.mu.Lock()
	copy(s.published, s.tally)
	s.mu.Unlock()
}
