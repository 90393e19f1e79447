package capture

import (
	"time"

	"github.com/xdpcap/xdpcap/internal/clock"
)

const (
	clockInterval = int64(time.Second)
	// A correction of more than this is not drift: somebody has set the clock.
	clockStep = int64(10 * time.Millisecond)
)

// A wallClock turns the program's CLOCK_MONOTONIC stamps into CLOCK_REALTIME ones that never
// decrease. It follows the drift between the two clocks, and steps forward; a wall clock that is
// set back is not followed, since a capture file's stamps must stay in order.
type wallClock struct {
	offset   int64 // ns to add to CLOCK_MONOTONIC
	measured int64 // when, in CLOCK_MONOTONIC
	last     int64 // the latest stamp given out
}

func newWallClock() (wallClock, error) {
	var c wallClock
	offset, now, err := clock.Offset()
	c.offset, c.measured = offset, now
	return c, err
}

// refresh measures anew when the last measurement is older than clockInterval. now is
// CLOCK_MONOTONIC.
func (c *wallClock) refresh(now int64) {
	if now-c.measured < clockInterval {
		return
	}
	offset, at, err := clock.Offset()
	if err != nil {
		return // it cannot fail after it has worked once
	}
	c.measured = at
	if offset-c.offset > -clockStep {
		c.offset = offset
	}
}

// stamp converts CLOCK_MONOTONIC to nanoseconds since the Unix epoch.
func (c *wallClock) stamp(mono uint64) int64 {
	c.last = max(c.last, int64(mono)+c.offset)
	return c.last
}
