package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readings is how many measurements Offset takes.
	readings = 8
	// A reading of both clocks that is off by more than this is measured again with more care.
	suspicious = int64(50 * time.Microsecond)
	// step is the least change of the offset that means that somebody has set the wall clock. What
	// is less may be an error of the measurement.
	step = int64(time.Millisecond)
)

// A Wall turns times of the machine's CLOCK_MONOTONIC into those of CLOCK_REALTIME. The two clocks
// run at the same rate; what changes their difference is that somebody sets the wall clock, or that
// the machine was suspended, when CLOCK_MONOTONIC stands still. It is for one goroutine.
type Wall struct {
	Offset int64 // ns to add to CLOCK_MONOTONIC for CLOCK_REALTIME
	// Until is the last time, in CLOCK_MONOTONIC, at which the offset was known to be this one.
	Until int64

	next int64 // the offset since the wall clock was set
}

// NewWall measures the offset.
func NewWall() (Wall, error) {
	offset, now, err := Offset()
	return Wall{Offset: offset, Until: now}, err
}

// Read returns CLOCK_MONOTONIC, and whether the wall clock was set since Until. If so, the offset
// stays as it is until the next Follow, so that times before that can still be turned.
func (w *Wall) Read() (now int64, wasSet bool, err error) {
	if now, err = Monotonic(); err != nil {
		return 0, false, err
	}
	wall, err := read(unix.CLOCK_REALTIME)
	if err != nil {
		return 0, false, err
	}
	if !differ(wall-now, w.Offset, suspicious) {
		w.Until = now
		return now, false, nil
	}
	if w.next, now, err = Offset(); err != nil {
		return 0, false, err
	}
	if differ(w.next, w.Offset, step) {
		return now, true, nil
	}
	w.Offset, w.Until = w.next, now
	return now, false, nil
}

// Follow takes on the offset that the last Read found, and returns by how much the wall clock was
// set forward; that is negative where it was set back.
func (w *Wall) Follow() time.Duration {
	forward := w.next - w.Offset
	w.Offset = w.next
	return time.Duration(forward)
}

// TimeOf is the time of day of a moment in CLOCK_MONOTONIC that has passed just now. It follows a
// wall clock that was set.
func (w *Wall) TimeOf(mono uint64) (time.Time, error) {
	_, wasSet, err := w.Read()
	if wasSet {
		w.Follow()
	}
	return time.Unix(0, int64(mono)+w.Offset), err
}

func differ(a, b, by int64) bool { return a-b > by || b-a > by }

// Offset returns the nanoseconds to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and the time in
// CLOCK_MONOTONIC at which they were measured. Each of several measurements reads the wall clock
// between two readings of the monotonic clock. The one with the least time between these counts; it
// is wrong by at most half that time.
func Offset() (offset, now int64, err error) {
	narrowest := int64(-1)
	for range readings {
		before, err := Monotonic()
		if err != nil {
			return 0, 0, err
		}
		wall, err := read(unix.CLOCK_REALTIME)
		if err != nil {
			return 0, 0, err
		}
		after, err := Monotonic()
		if err != nil {
			return 0, 0, err
		}
		if width := after - before; narrowest < 0 || width < narrowest {
			narrowest = width
			offset = wall - before - width/2
		}
		now = after
	}
	return offset, now, nil
}
