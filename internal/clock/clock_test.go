package clock

import (
	"testing"
	"time"
)

// The monotonic clock plus the offset is the time of day.
func TestOffset(t *testing.T) {
	offset, measured, err := Offset()
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().UnixNano()
	now, err := Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	after := time.Now().UnixNano()
	const slack = int64(time.Millisecond)
	if got := now + offset; got < before-slack || got > after+slack {
		t.Errorf("time %d, the wall clock said %d to %d", got, before, after)
	}
	if measured > now {
		t.Errorf("measured at %d, and it is %d", measured, now)
	}
}

// ThreadTime grows while the thread works.
func TestThreadTime(t *testing.T) {
	start, err := ThreadTime()
	if err != nil {
		t.Fatal(err)
	}
	for now := start; now < start+time.Millisecond; {
		if now, err = ThreadTime(); err != nil {
			t.Fatal(err)
		}
	}
}
