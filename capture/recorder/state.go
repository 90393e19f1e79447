package recorder

import "time"

// noteHeld updates held, unless write drains the ring: then it may remove the oldest packet now.
func (r *Recorder) noteHeld() {
	switch {
	case r.draining.Load():
	case r.ring.isEmpty():
		r.held.Store(0)
	default:
		r.held.Store(r.newest - r.ring.firstTime())
	}
}

// A State is what a Recorder has in memory, and whether it writes.
type State struct {
	Bytes  int64         // of its memory that packets take
	Held   time.Duration // from the oldest packet in memory to the newest
	Writes bool          // a recording is being written
	Ahead  time.Duration // as in Options
}

// State returns the state now. Any goroutine may call it.
func (r *Recorder) State() State {
	return State{
		Bytes: int64(r.ring.head.Load() - r.ring.tail.Load()), Held: time.Duration(r.held.Load()), Ahead: r.options.Ahead,
		Writes: r.draining.Load() || r.unfinished.Load() > 0,
	}
}
