package capture

import (
	"fmt"
	"math"
	"time"

	"github.com/xdpcap/xdpcap/internal/clock"
)

// A wallClock turns the programs' CLOCK_MONOTONIC stamps into CLOCK_REALTIME ones. These never
// decrease, except where the wall clock was set back.
type wallClock struct {
	clock.Wall
	last int64 // the latest stamp given out

	// setBack is by how much the wall clock was set back since the last packet.
	setBack time.Duration
}

func newWallClock() (wallClock, error) {
	w, err := clock.NewWall()
	return wallClock{Wall: w}, err
}

// follow adopts a change of the wall clock. If the clock was set back, it returns a notice for the
// user as its error.
func (c *wallClock) follow() error {
	back := -c.Follow().Round(time.Millisecond)
	if back <= 0 {
		return nil
	}
	c.last = math.MinInt64
	c.setBack += back
	return fmt.Errorf("the wall clock was set back by %v, and the times of the packets go back with it", back)
}

// stamp converts CLOCK_MONOTONIC to nanoseconds since the Unix epoch.
func (c *wallClock) stamp(mono uint64) int64 {
	c.last = max(c.last, int64(mono)+c.Offset)
	return c.last
}
