// Package ring is how records come from the sampling programs: the rings of all CPUs, of each kind
// of transport, and their records in one sequence.
package ring

import (
	"errors"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/wait"
)

const (
	// FlushInterval is how long a packet waits at most in a ring that does not fill up.
	FlushInterval = 50 * time.Millisecond
	// idleInterval is how long Wait sleeps at most when the next packet will wake it. The outputs
	// need to be called now and then.
	idleInterval = 250 * time.Millisecond
)

// A Set is the rings of all CPUs. It orders their records by their time stamps, and does not depend
// on the transport: a ring is anything that a cursor can walk along. Its methods belong to the
// reader's goroutine, except RingOf and Wake.
type Set struct {
	transport transport
	polls     bool // see ShowsPolls
	poller    *wait.Poller

	cursors []*cursor
	order   order  // the cursors whose rings have a record
	group   uint64 // the number of the current group
	horizon uint64 // the order is final up to this stamp, in CLOCK_MONOTONIC ns
	known   int64  // the latest stamp that Complete has returned
	ticks   *ticks // for stamps at ticks of the kernel's clock; nil = exact stamps

	young     time.Duration // records wait for their place in the order until they are so old
	at, armed alarm         // the one that Arm asked for, and the one that all rings support
}

// New returns a Set without rings. The caller calls Prepare, Open and Refresh, in this order, and
// Close in any case.
func New(o Options) *Set { return newSet(o, o.Transport.kind().open(o)) }

func newSet(o Options, t transport) *Set {
	return &Set{transport: t, polls: o.Transport.kind().showsPolls}
}

// Prepare sets the sizes of the transport's maps, and the constants that tell the programs about
// it, before anything is created. fragments reports whether there may be programs that cannot copy
// all packets by themselves: see Source.InFragments.
func (m *Set) Prepare(spec *ebpf.CollectionSpec, fragments bool) error {
	return m.transport.prepare(spec, fragments)
}

// Open gets the created maps.
func (m *Set) Open(maps map[string]*ebpf.Map) (err error) {
	if m.poller, err = wait.NewPoller(); err != nil {
		return err
	}
	return m.transport.open(maps)
}

// ShowsPolls reports whether the rings can show the stamp of the current NAPI poll.
func (m *Set) ShowsPolls() bool { return m.polls }

// UseTicks says that the stamps are ticks of the kernel's clock.
func (m *Set) UseTicks() { m.ticks = new(ticks) }

// RingOf returns a number for the ring that the programs use on a CPU. Each ring that the CPU has
// had has another number; 0 = no ring. Any goroutine may call it once Open has returned.
func (m *Set) RingOf(cpu int) uint32 { return m.transport.ringOf(cpu) }

// Refresh adds the rings of CPUs that have come online, and closes those of CPUs that went offline.
// An error is about one CPU: the next call continues with the others. It invalidates what Next has
// returned.
func (m *Set) Refresh() error {
	rings, err := m.transport.rings()
	err = errors.Join(err, errors.Join(m.drop()...))
	for _, ring := range rings {
		m.cursors = append(m.cursors, newCursor(ring))
		if added := m.poller.Add(ring.fd()); err == nil {
			err = added
		}
	}
	return err
}

// drop closes the rings of CPUs that went offline, once all their records were returned.
func (m *Set) drop() (errs []error) {
	m.cursors = slices.DeleteFunc(m.cursors, func(c *cursor) bool {
		if !c.ring.isGone() || m.refill(c) {
			return false
		}
		errs = append(errs, c.ring.close())
		return true
	})
	return errs
}

// Horizon is the stamp that the last Gather had.
func (m *Set) Horizon() uint64 { return m.horizon }

// IsEmpty reports whether the last Gather has left no record, whether its place is final or not.
func (m *Set) IsEmpty() bool { return len(m.order) == 0 }

// Arm makes every ring end the next Wait: when a part of it is filled, or at its next record if
// record is true and it supports that. It returns true if that has happened already.
func (m *Set) Arm(record bool) (filled bool) {
	m.at = onPart
	if record {
		m.at = onRecord
	}
	m.armed = m.at
	for _, c := range m.cursors {
		m.armed = min(m.armed, c.ring.arm(m.at))
	}
	return m.armed == never
}

// Wait sleeps until a ring asks to be read, as Arm told it to, until Wake is called, or until a
// timeout has passed. It is short while records wait for their place in the order, and long if all
// rings ask at the next record.
func (m *Set) Wait() error {
	timeout := FlushInterval
	switch {
	case m.armed == never, m.at == onRecord && !m.IsEmpty():
		timeout = m.young
	case m.armed == unsure:
		timeout = SettleTime
	case m.armed == onRecord:
		timeout = idleInterval
	}
	return m.poller.Wait(timeout)
}

// Wake ends the current Wait, or the next one. Any goroutine may call it between Open and Close.
func (m *Set) Wake() { m.poller.Wake() }

// Close closes the rings, and releases what they share.
func (m *Set) Close() error {
	var errs []error
	for _, c := range m.cursors {
		errs = append(errs, c.ring.close())
	}
	errs = append(errs, m.transport.close())
	if m.poller != nil {
		errs = append(errs, m.poller.Close())
	}
	m.cursors, m.order, m.poller = nil, nil, nil
	return errors.Join(errs...)
}
