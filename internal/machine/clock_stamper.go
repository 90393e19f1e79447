package machine

import (
	"fmt"
	"math"
	"time"
)

// A Stamper turns the CLOCK_MONOTONIC stamps of packets into CLOCK_REALTIME ones. These never
// decrease, except when the wall clock is set back. It is for one goroutine.
type Stamper struct {
	WallClock
	last int64 // the latest stamp given out

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
