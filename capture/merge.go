package capture

import "slices"

// A merge brings the records of all rings into one sequence by their time stamps. It does not
// depend on the transport: a ring is anything that a cursor can walk along.
type merge struct {
	cursors []*cursor
	order   order  // the cursors whose rings have a record
	group   uint64 // the number of the group that is handed on
	horizon uint64 // CLOCK_MONOTONIC ns up to which the order is final
	known   int64  // the latest that complete has returned
	ticks   *ticks // where packets have stamps of ticks; nil = nowhere
}

// A cursor is where the reader stands in a ring.
type cursor struct {
	ring  ring
	stamp uint64 // of the ring's next record, while the cursor is in the order
	ready bool   // the cursor is in the order
	group uint64 // the last one that has packets of the ring
}

// groupSize is how many packets are handed on at a time. What is known of them stays in the CPU's
// fastest cache meanwhile, also with the bytes of short packets.
const groupSize = 32

// groupBytes is about how many bytes of a ring a group has at most, because what is looked at in
// several passes is to be found in that cache each time.
const groupBytes = 2048

// newCursor returns a cursor before the first record of a ring.
func newCursor(r ring) *cursor { return &cursor{ring: r} }

// isReady tells whether there is a record whose place in the sequence is final.
func (m *merge) isReady() bool { return len(m.order) > 0 && m.order[0].stamp <= m.horizon }

// next fills a slice with the oldest packets whose place in the sequence is final, as they were
// sent, with stamps of CLOCK_MONOTONIC, and returns how many there are. They stay valid until the
// next call. Where isReady, there is one at least. A damaged record, which has no place, comes as
// soon as the reader finds it.
func (m *merge) next(packets []Packet) (n int) {
	m.group++
	for n < len(packets) && m.isReady() {
		c, until := m.order[0], m.horizon
		isAlone := len(m.order) == 1
		if !isAlone {
			until = min(until, m.order.second())
		}
		if c.group != m.group {
			c.group = m.group
			c.ring.begin()
		}
		// Of cursors with equal stamps any may be the first.
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

// gather asks the rings for new records, and adds the cursors that have a record again to the
// order.
func (m *merge) gather() {
	for _, c := range m.cursors {
		m.refill(c)
	}
}

// refill asks a cursor's ring for new records, and tells whether it has any.
func (m *merge) refill(c *cursor) bool {
	c.ring.refill()
	if !c.ready {
		if c.stamp, c.ready = c.ring.stamp(); c.ready {
			m.order.push(c)
		}
	}
	return c.ready
}

// release gives what lies before the cursors back to the kernel.
func (m *merge) release() {
	for _, c := range m.cursors {
		c.ring.release()
	}
}

// drop closes the rings of CPUs that have gone, once all that is in them was returned. What next
// has returned is not valid any more.
func (m *merge) drop() (errs []error) {
	m.cursors = slices.DeleteFunc(m.cursors, func(c *cursor) bool {
		if !c.ring.isGone() || m.refill(c) {
			return false
		}
		errs = append(errs, c.ring.close())
		return true
	})
	return errs
}

// complete tells up to which stamp the order is final with what the next gather will find, at this
// time; both are in CLOCK_MONOTONIC ns. A ring in which a record is being written holds the others
// back, but not until their packets are lost.
func (m *merge) complete(now int64) int64 {
	until, isCrowded := now-int64(promptTime), false
	for _, c := range m.cursors {
		until = min(until, c.ring.complete(now))
		isCrowded = isCrowded || c.ring.isHalfFull()
	}
	if isCrowded {
		until = max(until, now-int64(settleTime))
	}
	m.known = max(m.known, m.ticks.before(until))
	return m.known
}

// arm lets every ring ask to be read. It returns what may be counted on with all of them.
func (m *merge) arm(at alarm) alarm {
	armed := at
	for _, c := range m.cursors {
		armed = min(armed, c.ring.arm(at))
	}
	return armed
}

// close closes the rings.
func (m *merge) close() (errs []error) {
	for _, c := range m.cursors {
		errs = append(errs, c.ring.close())
	}
	m.cursors, m.order = nil, nil
	return errs
}

// An order is a heap of the cursors that have a record, by its time stamp: the first is the oldest.
type order []*cursor

func (o order) less(i, j int) bool { return o[i].stamp < o[j].stamp }

// second is the stamp of the oldest record that is not the first cursor's. It may be called only
// where there are several.
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

// popFirst removes the first.
func (o *order) popFirst() {
	h := *o
	last := len(h) - 1
	h[0] = h[last]
	*o = h[:last]
	o.fixFirst()
}

// fixFirst restores the order after the first has moved on.
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
