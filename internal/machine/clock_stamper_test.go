package machine

import "testing"

// The results are times of the wall clock.
func TestStamper(t *testing.T) {
	t.Parallel()
	c, err := NewStamper()
	must(t, err)
	for range 100 {
		checkNow(t, func(mono int64) int64 { return c.Stamp(uint64(mono)) })
	}
}

// A packet that was stamped late has the time of the one before.
func TestStamperNeverGoesBack(t *testing.T) {
	t.Parallel()
	c := Stamper{WallClock: WallClock{Offset: 1000}}
	if a, b := c.Stamp(500), c.Stamp(400); a != 1500 || b != 1500 {
		t.Errorf("stamps %d, %d", a, b)
	}
}
