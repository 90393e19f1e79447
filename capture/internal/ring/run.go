package ring

// A Run is consecutive records of one shared ring that come before those of all other rings. They
// are read in place, and stay valid until End.
type Run struct {
	set   *Set
	ring  *sharedRing
	at    uint64 // the position of the record that Next returns
	left  uint64 // bytes from there to the end of the last record
	until uint64 // the stamp of the next record of another ring, or the horizon
}

// Run begins the next run. It is false if no record is ready, or if the next one is in a ring of
// another kind.
func (m *Set) Run() (r Run, ok bool) {
	if !m.IsReady() {
		return r, false
	}
	ring, ok := m.order[0].ring.(*sharedRing)
	if !ok {
		return r, false
	}
	until := m.horizon
	if len(m.order) > 1 {
		until = min(until, m.order.second())
	}
	return Run{set: m, ring: ring, at: ring.end, left: ring.head - ring.end, until: until}, true
}

// Next returns the record after those that were taken. It is nil if the run is over, or if the
// record needs Set.Next and RestoreTag: it is damaged, or has a VLAN tag beside it.
func (r *Run) Next() *Record {
	rec := r.ring.record(r.at)
	// Where the ring ends, no record is short enough.
	if rec.size() > r.left || !rec.isSent() || uint64(rec.Time) > r.until || rec.isTagBeside() {
		return nil
	}
	return rec
}

// Take goes on to the record after rec, which Next has returned.
func (r *Run) Take(rec *Record) {
	r.at += rec.size()
	r.left -= rec.size()
}

// End goes on with the ring that is the next in order, and lets the kernel overwrite what was
// taken.
func (r *Run) End() {
	ring, m := r.ring, r.set
	first := m.order[0]
	ring.end = r.at
	if ring.end-ring.tail > ring.share() {
		ring.release()
	}
	if first.stamp, first.ready = ring.stamp(); !first.ready {
		m.order.popFirst()
	} else if len(m.order) > 1 {
		m.order.fixFirst()
	}
}
