package clock

import (
	"testing"
	"time"
)

// What is converted is the time of the wall clock.
func TestStamper(t *testing.T) {
	t.Parallel()
	c, err := NewStamper()
	must(t, err)
	for range 100 {
		before := time.Now().UnixNano()
		mono, err := Monotonic()
		must(t, err)
		after := time.Now().UnixNano()
		const slack = int64(time.Millisecond)
		if got := c.Stamp(uint64(mono)); got < before-slack || got > after+slack {
			t.Errorf("stamp %d, the wall clock said %d to %d", got, before, after)
		}
	}
}

// A packet that was stamped late has the time of the one before.
func TestStamperNeverGoesBack(t *testing.T) {
	t.Parallel()
	c := Stamper{Wall: Wall{Offset: 1000}}
	if a, b := c.Stamp(500), c.Stamp(400); a != 1500 || b != 1500 {
		t.Errorf("stamps %d, %d", a, b)
	}
}
