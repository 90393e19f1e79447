package ring

import (
	"math"
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

// GroupSize is how many packets are passed on at a time. It is small, so that their facts, and the
// bytes of short packets, stay in the CPU's fastest cache.
const GroupSize = 32

// groupBytes is about how many bytes of a ring a group has at most, so that every pass over the
// group finds them in that cache.
const groupBytes = 2048

// newCursor returns a cursor before the first record of a ring.
func newCursor(r ring) *cursor { return &cursor{ring: r} }

// IsReady reports whether there is a record whose position in the sequence is final.
func (s *Set) IsReady() bool { return len(s.order) > 0 && s.order[0].stamp <= s.horizon }

// Next fills a slice with the oldest packets whose position in the sequence is final, and returns
// how many there are: at least one if IsReady. They are as the programs sent them, with
// CLOCK_MONOTONIC stamps, and stay valid until the next call. A damaged record has no position: it
// is returned as soon as it is found.
func (s *Set) Next(packets []packet.Packet) (n int) {
	s.group++
	for n < len(packets) && s.IsReady() {
		c, until := s.order[0], s.horizon
		isAlone := len(s.order) == 1
		if !isAlone {
			until = min(until, s.order.second())
		}
		if c.group != s.group {
			c.group = s.group
			c.ring.begin()
		}
		// Among cursors with equal stamps, any may be first.
		var taken int
		taken, c.stamp, c.ready = c.ring.next(packets[n:], until)
		n += taken
		switch {
		case !c.ready:
			s.order.popFirst()
		case !isAlone:
			s.order.fixFirst()
		}
		if taken == 0 {
			break // the group has enough of this ring
		}
	}
	return n
}

// Gather looks for new records in the rings. The order is final up to the stamp `horizon`.
func (s *Set) Gather(horizon uint64) {
	s.horizon = horizon
	fullest := math.Float64frombits(s.fullest.Load())
	for _, c := range s.cursors {
		s.refill(c)
		fullest = max(fullest, c.ring.filled())
	}
	s.fullest.Store(math.Float64bits(fullest))
}

// Used returns the largest share of a ring that was in use since the last call. Any goroutine may
// call it.
func (s *Set) Used() float64 { return math.Float64frombits(s.fullest.Swap(0)) }

// refill looks for new records in a cursor's ring, and reports whether it has any.
func (s *Set) refill(c *cursor) bool {
	c.ring.refill()
	if !c.ready {
		if c.stamp, c.ready = c.ring.stamp(); c.ready {
			s.order.push(c)
		}
	}
	return c.ready
}

// Release gives the memory before the cursors back to the kernel.
func (s *Set) Release() {
	for _, c := range s.cursors {
		c.ring.release()
	}
}

// Complete returns the stamp up to which the order will be final after the next Gather. now and the
// stamp are in CLOCK_MONOTONIC ns. A ring in which a record is being written holds the other rings
// back, unless one of them is more than half full: it would lose packets.
func (s *Set) Complete(now int64) int64 {
	until, isCrowded := now-int64(promptTime), false
	for _, c := range s.cursors {
		until = min(until, c.ring.complete(now))
		isCrowded = isCrowded || c.ring.isHalfFull()
	}
	if isCrowded {
		until = max(until, now-int64(SettleTime))
	}
	s.complete = max(s.complete, s.ticks.before(until))
	s.young = min(time.Duration(now-s.complete), SettleTime)
	return s.complete
}

// An order is a heap of the cursors that have a record, by the record's time stamp: the oldest
// comes first.
type order []*cursor

func (o order) less(i, j int) bool { return o[i].stamp < o[j].stamp }

// second is the stamp of the oldest record besides that of the first cursor. There must be at least
// two cursors.
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
