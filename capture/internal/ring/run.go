package ring

// A Run is consecutive records of one shared ring that are older than those of all other rings.
// They are read in place, and stay valid until End.
type Run struct {
	set   *Set
	ring  *sharedRing
	at    uint64 // the position of the record that Next returns
	left  uint64 // bytes from there to the end of the ring's last record; 0 = there is none
	until uint64 // the stamp of the next record of another ring, or the horizon if that is earlier
}

// Run begins the next run. ok is false if no record is ready, or if the next one is in a perf ring.
func (s *Set) Run() (r Run, ok bool) {
	if !s.IsReady() {
		return r, false
	}
	ring, ok := s.order[0].ring.(*sharedRing)
	if !ok {
		return r, false
	}
	until := s.horizon
	if len(s.order) > 1 {
		until = min(until, s.order.second())
	}
	return Run{set: s, ring: ring, at: ring.end, left: ring.head - ring.end, until: until}, true
}

// Next returns the first record that was not taken yet. It is nil if the run is over, or if the
// caller must get the record from Set.Next: it is damaged, or a VLAN tag must be put back into it.
func (r *Run) Next() *Record {
	rec := r.ring.record(r.at)
	if rec.size() > r.left || !rec.isSent() || uint64(rec.Time) > r.until || rec.hasTag() {
		return nil
	}
	return rec
}

// Take moves on to the record after rec, which Next has returned.
func (r *Run) Take(rec *Record) {
	r.at += rec.size()
	r.left -= rec.size()
}

// End moves the ring's cursor behind the taken records, and sorts it among the other rings again.
// It lets the kernel overwrite the records that were read, once they fill a share of the ring.
func (r *Run) End() {
	ring, s := r.ring, r.set
	first := s.order[0]
	ring.end = r.at
	if ring.end-ring.tail > ring.share() {
		ring.release()
	}
	if first.stamp, first.ready = ring.stamp(); !first.ready {
		s.order.popFirst()
	} else if len(s.order) > 1 {
		s.order.fixFirst()
	}
}
