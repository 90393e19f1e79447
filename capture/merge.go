package capture

import "slices"

// A merge brings the records of all rings into one sequence by their time stamps. It does not
// depend on the transport: a ring is anything that a cursor can walk along.
type merge struct {
	cursors []*cursor
	order   order   // the cursors that have a record
	spent   *cursor // the one whose last record next has returned; nil = none
	horizon uint64  // CLOCK_MONOTONIC ns up to which the order is final
	known   int64   // the latest that complete has returned

	sources int              // of the session
	reject  func(source int) // counts a record that failed its check
}

// A cursor walks along one ring. It takes many records out of it at a time, because that takes much
// less time for each of them.
type cursor struct {
	ring  ring
	left  []Packet // those that were taken out of the ring last, and have not been returned yet
	group [groupSize]Packet
}

// groupSize is how many records and packets are handed on at a time, at most. They stay in the
// CPU's fastest cache, also with the bytes of short packets.
const groupSize = 64

// newCursor returns a cursor before the first record of a ring.
func newCursor(r ring) *cursor { return &cursor{ring: r} }

// first is the stamp of the first record that is left.
func (c *cursor) first() uint64 { return uint64(c.left[0].Time) }

// isReady tells whether there is a record whose place in the sequence is final. What next has
// returned is not valid any more.
func (m *merge) isReady() bool {
	if c := m.spent; c != nil {
		m.spent = nil
		if m.fill(c) {
			m.order.push(c)
		}
	}
	return len(m.order) > 0 && m.order[0].first() <= m.horizon
}

// next returns the oldest packets, at most so many, that come out of one ring one after the other
// and whose place in the sequence is final: as they were sent, with the stamps of CLOCK_MONOTONIC.
// They stay valid until isReady is called. There are none where that would return false, and after
// the last ones that a cursor had at hand.
func (m *merge) next(most int) []Packet {
	if m.spent != nil || len(m.order) == 0 {
		return nil
	}
	c, until := m.order[0], m.horizon
	if len(m.order) > 1 {
		until = min(until, m.order.second())
	}
	// Of cursors with equal stamps any may be the first.
	most = min(most, len(c.left))
	n := 0
	for n < most && uint64(c.left[n].Time) <= until {
		n++
	}
	run := c.left[:n]
	c.left = c.left[n:]
	switch {
	case len(c.left) == 0:
		m.spent = c
		m.order.popFirst()
	case len(m.order) > 1:
		m.order.fixFirst()
	}
	return run
}

// gather asks the rings for new records, and adds the cursors that have a record again to the
// order.
func (m *merge) gather() {
	for _, c := range m.cursors {
		c.ring.refill()
		if len(c.left) == 0 && m.fill(c) {
			m.order.push(c)
		}
	}
}

// fill takes the next records out of a cursor's ring, and tells whether there are any. It rejects
// those that fail the check.
func (m *merge) fill(c *cursor) bool {
	for {
		packets := c.group[:c.ring.next(c.group[:])]
		kept := 0
		for i := range packets {
			p := &packets[i]
			switch {
			case !p.isOf(m.sources):
				m.reject(p.named())
				continue
			case kept != i:
				packets[kept] = *p
			}
			kept++
		}
		c.left = packets[:kept]
		if kept > 0 || len(packets) == 0 {
			return kept > 0
		}
	}
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
		if !c.ring.isGone() || c == m.spent || len(c.left) > 0 {
			return false
		}
		c.ring.refill()
		if m.fill(c) {
			m.order.push(c)
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
	m.known = max(m.known, until)
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
	m.cursors, m.order, m.spent = nil, nil, nil
	return errs
}

// An order is a heap of the cursors that have a record, by its time stamp: the first is the oldest.
type order []*cursor

func (o order) less(i, j int) bool { return o[i].first() < o[j].first() }

// second is the stamp of the oldest record that is not the first cursor's. It may be called only
// where there are several.
func (o order) second() uint64 {
	if len(o) > 2 && o.less(2, 1) {
		return o[2].first()
	}
	return o[1].first()
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
