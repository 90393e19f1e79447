// Package ring reads the records of the sampling programs: from the rings of all CPUs, of each kind
// of transport, in one sequence.
package ring

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
)

const (
	// FlushInterval is the longest time that a packet waits in a ring that does not fill up.
	FlushInterval = 50 * time.Millisecond
	// idleInterval is the longest time that Wait sleeps if the next packet will wake it. Outputs
	// are flushed after each sleep.
	idleInterval = 250 * time.Millisecond
)

// A Set is the rings of all CPUs. It merges their records by their time stamps, in the same way for
// each transport. Its methods belong to the reader's goroutine, except RingOf, Used and Wake.
type Set struct {
	transport  transport
	showsPolls bool // see ShowsPolls
	poller     *poller

	cursors  []*cursor
	order    order         // the cursors whose rings have a record
	group    uint64        // the number of the current group
	horizon  uint64        // the order is final up to this stamp, in CLOCK_MONOTONIC ns
	fullest  atomic.Uint64 // the result of Used, by math.Float64bits
	complete int64         // the latest result of Complete
	ticks    *ticks        // for stamps at ticks of the kernel's clock; nil = exact stamps

	young     time.Duration // the age at which the order of records is final, at most SettleTime
	at, armed alarm         // the alarm that Arm requested, and the one that all rings support
}

// New returns a Set without rings. The caller calls Prepare, Open and Refresh, in this order, and
// Close in any case.
func New(o Options) *Set { return newSet(o, o.Transport.kind().open(o)) }

func newSet(o Options, t transport) *Set {
	return &Set{transport: t, showsPolls: o.Transport.kind().showsPolls}
}

// Prepare sets the sizes of the transport's maps, and the constants that the programs need, before
// anything is created. fragments reports whether there may be programs that cannot copy all packets
// by themselves: see Source.InFragments.
func (s *Set) Prepare(spec *ebpf.CollectionSpec, fragments bool) error {
	return s.transport.prepare(spec, fragments)
}

// Open gets the created maps.
func (s *Set) Open(maps map[string]*ebpf.Map) (err error) {
	if s.poller, err = newPoller(); err != nil {
		return err
	}
	return s.transport.open(maps)
}

// ShowsPolls reports whether the rings can show the stamp of the current NAPI poll.
func (s *Set) ShowsPolls() bool { return s.showsPolls }

// UseTicks makes the order final in steps, because the stamps are ticks of the kernel's clock.
func (s *Set) UseTicks() { s.ticks = new(ticks) }

// RingOf returns a number for the ring that the programs use on a CPU. Each ring that the CPU has
// had has another number; 0 = no ring. Any goroutine may call it once Open has returned.
func (s *Set) RingOf(cpu int) uint32 { return s.transport.ringOf(cpu) }

// Refresh adds the rings of CPUs that have come online, and closes those of CPUs that went offline.
// An error is about one CPU: the next call continues with the others. Packets that Next has
// returned are no longer valid.
func (s *Set) Refresh() error {
	rings, err := s.transport.rings()
	err = errors.Join(err, errors.Join(s.drop()...))
	for _, ring := range rings {
		s.cursors = append(s.cursors, newCursor(ring))
		if added := s.poller.Add(ring.fd()); err == nil {
			err = added
		}
	}
	return err
}

// drop closes the rings of CPUs that went offline and whose records were all returned.
func (s *Set) drop() (errs []error) {
	s.cursors = slices.DeleteFunc(s.cursors, func(c *cursor) bool {
		if !c.ring.isGone() || s.refill(c) {
			return false
		}
		errs = append(errs, c.ring.close())
		return true
	})
	return errs
}

// Horizon is the argument of the last Gather.
func (s *Set) Horizon() uint64 { return s.horizon }

// IsEmpty reports whether no ring has a record, including records whose position is not final.
func (s *Set) IsEmpty() bool { return len(s.order) == 0 }

// Arm makes every ring end the next Wait: when a part of it is filled or, if atRecord is true and
// the ring supports that, at its next record. It returns true if a ring is filled so far already.
func (s *Set) Arm(atRecord bool) (filled bool) {
	s.at = onPart
	if atRecord {
		s.at = onRecord
	}
	s.armed = s.at
	for _, c := range s.cursors {
		s.armed = min(s.armed, c.ring.arm(s.at))
	}
	return s.armed == never
}

// Wait sleeps until a ring becomes readable by the alarm of Arm, until Wake is called, or until a
// timeout has passed. The timeout is short while the position of records is not final, and long if
// all rings become readable at the next record.
func (s *Set) Wait() error {
	timeout := FlushInterval
	switch {
	case s.armed == never, s.at == onRecord && !s.IsEmpty():
		timeout = s.young
	case s.armed == unsure:
		timeout = SettleTime
	case s.armed == onRecord:
		timeout = idleInterval
	}
	return s.poller.Wait(timeout)
}

// Wake ends the current Wait, or the next one. Any goroutine may call it between Open and Close.
func (s *Set) Wake() { s.poller.Wake() }

// Close closes the rings, and releases the resources that they share.
func (s *Set) Close() error {
	var errs []error
	for _, c := range s.cursors {
		errs = append(errs, c.ring.close())
	}
	errs = append(errs, s.transport.close())
	if s.poller != nil {
		errs = append(errs, s.poller.Close())
	}
	s.cursors, s.order, s.poller = nil, nil, nil
	return errors.Join(errs...)
}
