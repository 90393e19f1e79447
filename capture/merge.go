package capture

// A merge brings the records of all rings into one sequence by their time stamps. It does not
// depend on the transport: a ring is anything that a cursor can walk along.
type merge struct {
	cursors []*cursor
	order   order  // the cursors that stand on a record
	horizon uint64 // CLOCK_MONOTONIC ns up to which the order is final

	reject func(source int) // counts a record that failed its check
}

// A cursor stands on one record of a ring. The record's bytes, and those of the one before, stay
// valid until the ring is released.
type cursor struct {
	ring ring
	rec  *samplerSample // in the ring; nil where a damaged record has no head
	data []byte         // the packet's bytes

	sources  int  // of the session
	standing bool // on a record that has not been taken yet
}

// newCursor returns a cursor before the first record of a ring, for a session of so many sources.
func newCursor(r ring, sources int) *cursor { return &cursor{ring: r, sources: sources} }

// isReady tells whether there is a record whose place in the sequence is final.
func (m *merge) isReady() bool {
	return len(m.order) > 0 && m.order[0].rec.TimeNs <= m.horizon
}

// first is the cursor on the oldest record. It may be called only when isReady is true.
func (m *merge) first() *cursor { return m.order[0] }

// next leaves the oldest record. Its bytes stay valid until the next call of next or release.
func (m *merge) next() {
	if !m.advance(m.order[0]) {
		m.order.popFirst()
	} else if len(m.order) > 1 {
		m.order.fixFirst()
	}
}

// gather asks the rings for new records, and adds the cursors that have a record again to the
// order.
func (m *merge) gather() {
	for _, c := range m.cursors {
		c.ring.refill()
		if !c.standing && m.advance(c) {
			m.order.push(c)
		}
	}
}

// advance moves a cursor to its ring's next record that passes the check. Without one the cursor
// stands behind the last record.
func (m *merge) advance(c *cursor) bool {
	for {
		raw, f := c.ring.next()
		if f == valid && c.put(raw) {
			c.standing = true
			return true
		}
		if f == nothing {
			c.standing = false
			return false
		}
		source := 0
		if c.rec != nil {
			source = int(c.rec.Source)
		}
		m.reject(source)
	}
}

// release gives what lies before the cursors back to the kernel.
func (m *merge) release() {
	for _, c := range m.cursors {
		c.ring.release()
	}
}

// isSettled tells that what is not in a ring yet is stamped after this call, or just before it.
func (m *merge) isSettled() bool {
	for _, c := range m.cursors {
		if !c.ring.isSettled() {
			return false
		}
	}
	return true
}

// arm lets every ring ask to be read. It returns false where one may be full before it asks.
func (m *merge) arm() bool {
	armed := true
	for _, c := range m.cursors {
		armed = c.ring.arm() && armed
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

// An order is a heap of the cursors that stand on a record, by its time stamp: the first is the
// oldest.
type order []*cursor

func (o order) less(i, j int) bool { return o[i].rec.TimeNs < o[j].rec.TimeNs }

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
