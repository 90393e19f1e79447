package capture

import (
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/clock"
)

func TestClockIsTrue(t *testing.T) {
	c, err := newWallClock()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		before := time.Now().UnixNano()
		mono, err := clock.Monotonic()
		if err != nil {
			t.Fatal(err)
		}
		after := time.Now().UnixNano()
		const slack = int64(time.Millisecond)
		if got := c.stamp(uint64(mono)); got < before-slack || got > after+slack {
			t.Errorf("stamp %d, the wall clock said %d to %d", got, before, after)
		}
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	c := wallClock{offset: 1000}
	if a, b := c.stamp(500), c.stamp(400); a != 1500 || b != 1500 {
		t.Errorf("stamps %d, %d", a, b)
	}
}

func TestClockRefresh(t *testing.T) {
	truth, now, err := clock.Offset()
	if err != nil {
		t.Fatal(err)
	}
	const second = int64(time.Second)
	for _, test := range []struct {
		name   string
		wrong  int64 // the clock's offset is off by this
		age    int64 // of its last measurement
		follow bool
	}{
		{"drift", 100_000, 2 * second, true},
		{"drift the other way", -100_000, 2 * second, true},
		{"too soon", -100_000, second / 2, false},
		{"the wall clock was set forward", -3600 * second, 2 * second, true},
		{"the wall clock was set back", 3600 * second, 2 * second, false},
	} {
		c := wallClock{offset: truth + test.wrong, measured: now - test.age}
		c.refresh(now)
		// The machine's own clock may be drifting meanwhile.
		if followed := max(c.offset-truth, truth-c.offset) < 50_000; followed != test.follow {
			t.Errorf("%s: off by %d ns before, by %d after", test.name, test.wrong, c.offset-truth)
		}
	}
}
