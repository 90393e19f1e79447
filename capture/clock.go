package capture

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	clockReadings = 8
	clockInterval = int64(time.Second)
	// A correction of more than this is somebody setting the clock, not its drift.
	clockStep = int64(10 * time.Millisecond)
)

// A clock turns the program's CLOCK_MONOTONIC stamps into CLOCK_REALTIME ones that never decrease.
// It follows the drift between the two clocks, and steps forward; a wall clock that is set back is
// not followed, since a capture file's stamps must stay in order.
type clock struct {
	offset   int64 // ns to add to CLOCK_MONOTONIC
	measured int64 // when, in CLOCK_MONOTONIC
	last     int64 // the latest stamp given out
}

func newClock() (clock, error) {
	var c clock
	offset, now, err := clockOffset()
	c.offset, c.measured = offset, now
	return c, err
}

// refresh measures anew when the last measurement is older than clockInterval. now is
// CLOCK_MONOTONIC.
func (c *clock) refresh(now int64) {
	if now-c.measured < clockInterval {
		return
	}
	offset, at, err := clockOffset()
	if err != nil {
		return // it cannot fail after it has worked once
	}
	c.measured = at
	if offset-c.offset > -clockStep {
		c.offset = offset
	}
}

// stamp converts CLOCK_MONOTONIC to nanoseconds since the Unix epoch.
func (c *clock) stamp(mono uint64) int64 {
	c.last = max(c.last, int64(mono)+c.offset)
	return c.last
}

// clockOffset reads the wall clock between two readings of the monotonic one, several times, and
// trusts the narrowest bracket: the error is at most half its width.
func clockOffset() (offset, now int64, err error) {
	narrowest := int64(-1)
	for range clockReadings {
		before, err := gettime(unix.CLOCK_MONOTONIC)
		if err != nil {
			return 0, 0, err
		}
		wall, err := gettime(unix.CLOCK_REALTIME)
		if err != nil {
			return 0, 0, err
		}
		after, err := gettime(unix.CLOCK_MONOTONIC)
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

func gettime(clock int32) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read clock %d: %w", clock, err)
	}
	return ts.Nano(), nil
}
