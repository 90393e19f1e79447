package machine

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readings is the number of comparisons of two clocks, of which the narrowest counts.
	readings = 8
	// suspicious is a change of the offset above which it is measured again by several readings.
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

// differ reports whether a and b differ by more than limit.
func differ(a, b, limit int64) bool { return a-b > limit || b-a > limit }

// ClockOffset returns the nanoseconds to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and the
// CLOCK_MONOTONIC time of the measurement. The error is at most half the time of the reads.
func ClockOffset() (offset, now int64, err error) {
	c, now, err := compareBracketed(unix.CLOCK_REALTIME)
	return c.Card - c.Monotonic, now, err
}

// A Stamper turns the CLOCK_MONOTONIC stamps of packets into CLOCK_REALTIME ones. These never
// decrease, except when the wall clock is set back. It is for one goroutine.
type Stamper struct {
	WallClock
	last int64 // the latest result of Stamp

	// SetBack is by how much the wall clock was set back since the caller last made it 0.
	SetBack time.Duration
}

// NewStamper measures the difference of the clocks.
func NewStamper() (Stamper, error) {
	w, err := NewWallClock()
	return Stamper{WallClock: w}, err
}

// Follow adopts a change of the wall clock. If the clock was set back, it returns a notice for the
// user as its error.
func (c *Stamper) Follow() error {
	back := -c.WallClock.Follow().Round(time.Millisecond)
	if back <= 0 {
		return nil
	}
	c.last = math.MinInt64
	c.SetBack += back
	return fmt.Errorf("the wall clock was set back by %v, and the times of the packets go back with it", back)
}

// Stamp converts CLOCK_MONOTONIC to nanoseconds since the Unix epoch.
func (c *Stamper) Stamp(mono uint64) int64 {
	c.last = max(c.last, int64(mono)+c.Offset)
	return c.last
}
