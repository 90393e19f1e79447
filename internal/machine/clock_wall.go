package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readings is the number of measurements of Offset.
	readings = 8
	// A measurement with a larger difference than this is repeated with more care.
	suspicious = int64(50 * time.Microsecond)
	// step is the smallest change of the offset that means that the wall clock was set. A smaller
	// change may be a measurement error.
	step = int64(time.Millisecond)
)

// A WallClock converts times of the machine's CLOCK_MONOTONIC to CLOCK_REALTIME. The two clocks run
// at the same rate. Their difference changes when the wall clock is set, or when the machine is
// suspended, because CLOCK_MONOTONIC stops then. It is for one goroutine.
type WallClock struct {
	Offset int64 // ns to add to CLOCK_MONOTONIC for CLOCK_REALTIME
	// Until is the last CLOCK_MONOTONIC time at which Offset was known to be right.
	Until int64

	next int64 // the new offset, after the wall clock was set
}

// NewWallClock measures the offset.
func NewWallClock() (WallClock, error) {
	offset, now, err := ClockOffset()
	return WallClock{Offset: offset, Until: now}, err
}

// Read returns CLOCK_MONOTONIC, and whether the wall clock was set since Until. If so, the offset
// stays unchanged until the next Follow, so that earlier times can still be converted.
func (w *WallClock) Read() (now int64, wasSet bool, err error) {
	if now, err = Monotonic(); err != nil {
		return 0, false, err
	}
	wall, err := readClock(unix.CLOCK_REALTIME)
	if err != nil {
		return 0, false, err
	}
	if !differ(wall-now, w.Offset, suspicious) {
		w.Until = now
		return now, false, nil
	}
	if w.next, now, err = ClockOffset(); err != nil {
		return 0, false, err
	}
	if differ(w.next, w.Offset, step) {
		return now, true, nil
	}
	w.Offset, w.Until = w.next, now
	return now, false, nil
}

// Follow adopts the offset that the last Read found, and returns how far the wall clock was set
// forward; negative if it was set back.
func (w *WallClock) Follow() time.Duration {
	forward := w.next - w.Offset
	w.Offset = w.next
	return time.Duration(forward)
}

// TimeOf is the time of day of a recent moment in CLOCK_MONOTONIC. It follows a wall clock that was
// set.
func (w *WallClock) TimeOf(mono uint64) (time.Time, error) {
	_, wasSet, err := w.Read()
	if wasSet {
		w.Follow()
	}
	return time.Unix(0, int64(mono)+w.Offset), err
}

func differ(a, b, by int64) bool { return a-b > by || b-a > by }

// ClockOffset returns the nanoseconds to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and the
// CLOCK_MONOTONIC time of the measurement. It measures several times: each time it reads the wall
// clock between two reads of the monotonic clock. The narrowest pair of reads counts; the error is
// at most half the time between them.
func ClockOffset() (offset, now int64, err error) {
	narrowest := int64(-1)
	for range readings {
		before, err := Monotonic()
		if err != nil {
			return 0, 0, err
		}
		wall, err := readClock(unix.CLOCK_REALTIME)
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
