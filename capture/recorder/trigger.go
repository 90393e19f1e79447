package recorder

import (
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// A Trigger starts a recording.
type Trigger struct {
	Name string // for the comment in the file

	// Fires is called with each packet and its source, in order, and reports whether the packet
	// starts a recording. It must not keep references to them.
	Fires func(*capture.Packet, *capture.Source) bool
}

// maxQueued is how many recordings may wait to be written. Further triggers are only counted.
const maxQueued = 16

// Trigger makes the recorder write the packets in memory and those of the time Post from now on.
// Any goroutine may call it, and it does not wait. Of several calls at once, only one has an
// effect.
func (r *Recorder) Trigger(name string) {
	r.requested.Store(&Recording{Trigger: name, Time: time.Now()})
}

// fireAfterInterval begins a recording, unless the previous one was fired less than Interval ago.
func (r *Recorder) fireAfterInterval(why Recording) {
	since := why.Time.Sub(r.last)
	if r.current == nil && since >= 0 && since < r.options.Interval {
		r.passedOver.Add(1)
		return
	}
	r.fire(why)
}

// fire begins a recording of the packets in the ring, unless one is under way or too many wait.
func (r *Recorder) fire(why Recording) {
	switch {
	case r.current != nil:
		r.current.further.Add(1)
		r.passedOver.Add(1)
	case len(r.queued) == maxQueued:
		r.queued[maxQueued-1].further.Add(1)
		r.passedOver.Add(1)
	default:
		r.current, r.deadline = &recording{Recording: why}, why.Time.Add(r.options.Post).UnixNano()
		r.current.end.Store(notYet)
		r.queued = append(r.queued, r.current)
		r.last = why.Time
		r.recordings.Add(1)
	}
}

// finish ends the current recording with the latest packet in the ring.
func (r *Recorder) finish() {
	r.current.end.Store(r.ring.head.Load())
	r.current = nil
	signal(r.wake)
}
