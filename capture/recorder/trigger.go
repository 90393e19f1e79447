package recorder

import (
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// A Trigger starts a recording.
type Trigger struct {
	Name string // for the comment in the file

	// Fires is called with each packet and its source, in order, and returns whether the packet
	// starts a recording. It must not keep references to them.
	Fires func(*capture.Packet, *capture.Source) bool
}

// maxQueued is how many recordings may wait to be written. Further triggers are only counted.
const maxQueued = 16

// Trigger makes the recorder write what it has, and what comes within the time Post. Any goroutine
// may call it, and it does not wait. Of several calls at once, only one has an effect.
func (r *Recorder) Trigger(name string) {
	r.asked.Store(&Recording{Trigger: name, Time: time.Now()})
}

// fireAfterInterval begins a recording, unless the previous one was fired less than Interval ago.
func (r *Recorder) fireAfterInterval(why Recording) {
	since := why.Time.Sub(r.last)
	if r.present == nil && since >= 0 && since < r.options.Interval {
		r.passedOver.Add(1)
		return
	}
	r.fire(why)
}

// fire begins a recording of what is in the ring, unless one is under way.
func (r *Recorder) fire(why Recording) {
	switch {
	case r.present != nil:
		r.present.further.Add(1)
		r.passedOver.Add(1)
	case len(r.queued) == maxQueued:
		r.queued[maxQueued-1].further.Add(1)
		r.passedOver.Add(1)
	default:
		r.present, r.deadline = &recording{Recording: why}, why.Time.Add(r.options.Post).UnixNano()
		r.present.end.Store(notYet)
		r.queued = append(r.queued, r.present)
		r.last = why.Time
		r.recordings.Add(1)
	}
}

// finish ends the present recording with the latest packet in the ring.
func (r *Recorder) finish() {
	r.present.end.Store(r.ring.head.Load())
	r.present = nil
	signal(r.wake)
}
