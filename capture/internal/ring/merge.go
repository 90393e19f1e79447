package ring

import (
	"time"

	"github.com/xdpcap/xdpcap/capture/packet"
)

// A cursor is the reader's position in a ring.
type cursor struct {
	ring  ring
	stamp uint64 // of the ring's next record, while the cursor is in the order
	ready bool   // the cursor is in the order
	group uint64 // the last group with packets of the ring
}

// GroupSize is how many packets are handed on at a time. It is small, so that their facts, and the
// bytes of short packets, stay in the CPU's fastest cache.
const GroupSize = 32

// groupBytes limits roughly how many bytes of a ring a group has, so that all passes over a group
// find it in that cache.
const groupBytes = 2048

// newCursor returns a cursor before the first record of a ring.
func newCursor(r ring) *cursor { return &cursor{ring: r} }

// IsReady reports whether there is a record whose position in the sequence is final.
func (m *Set) IsReady() bool { return len(m.order) > 0 && m.order[0].stamp <= m.horizon }

// Next fills a slice with the oldest packets whose position in the sequence is final, and returns
// how many there are: at least one if IsReady. They are as the programs sent them, with
// CLOCK_MONOTONIC stamps, and stay valid until the next call. A damaged record has no position, and
// comes as soon as the reader finds it.
func (m *Set) Next(packets []packet.Packet) (n int) {
	m.group++
	for n < len(packets) && m.IsReady() {
		c, until := m.order[0], m.horizon
		isAlone := len(m.order) == 1
		if !isAlone {
			until = min(until, m.order.second())
		}
		if c.group != m.group {
			c.group = m.group
			c.ring.begin()
		}
		// Among cursors with equal stamps, any may be first.
		var taken int
		taken, c.stamp, c.ready = c.ring.next(packets[n:], until)
		n += taken
		switch {
		case !c.ready:
			m.order.popFirst()
		case !isAlone:
			m.order.fixFirst()
		}
		if taken == 0 {
			break // the group has enough of this ring
		}
	}
	return n
}

// Gather asks the rings for new records. The order is final up to a stamp.
func (m *Set) Gather(horizon uint64) {
	m.horizon = horizon
	for _, c := range m.cursors {
		m.refill(c)
	}
}

// refill asks a cursor's ring for new records, and reports whether it has any.
func (m *Set) refill(c *cursor) bool {
	c.ring.refill()
	if !c.ready {
		if c.stamp, c.ready = c.ring.stamp(); c.ready {
			m.order.push(c)
		}
	}
	return c.ready
}

// Release gives the memory before the cursors back to the kernel.
func (m *Set) Release() {
	for _, c := range m.cursors {
		c.ring.release()
	}
}

// Complete returns the stamp up to which the order will be final after the next gather. now and the
// stamp are in CLOCK_MONOTONIC ns. A ring in which a record is being written holds the other rings
// back, but not when they fill up: they would lose packets.
func (m *Set) Complete(now int64) int64 {
	until, isCrowded := now-int64(promptTime), false
	for _, c := range m.cursors {
		until = min(until, c.ring.complete(now))
		isCrowded = isCrowded || c.ring.isHalfFull()
	}
	if isCrowded {
		until = max(until, now-int64(SettleTime))
	}
	m.known = max(m.known, m.ticks.before(until))
	m.young = min(time.Duration(now-m.known), SettleTime)
	return m.known
}

// An order is a heap of the cursors that have a record, by the record's time stamp: the oldest
// comes first.
type order []*cursor

func (o order) less(i, j int) bool { return o[i].stamp < o[j].stamp }

// second is the stamp of the oldest record among the other cursors. It needs at least two cursors.
func (o order) second() uint64 {
	if len(o) > 2 && o.less(2, 1) {
		return o[2].stamp
	}
	return o[1].stamp
}

func (o *order) push(c *cursor) {
	*o = append(*o, c)
	h := *o
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// popFirst removes the first cursor.
func (o *order) popFirst() {
	h := *o
	last := len(h) - 1
	h[0] = h[last]
	*o = h[:last]
	o.fixFirst()
}

// fixFirst restores the order after the first cursor has moved on.
func (o order) fixFirst() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(o) {
			return
		}
		if right := child + 1; right < len(o) && o.less(right, child) {
			child = right
		}
		if !o.less(child, i) {
			return
		}
		o[i], o[child] = o[child], o[i]
		i = child
	}
}
