package machine

import (
	"testing"
	"time"
)

// The monotonic clock plus the offset is the time of day.
func TestOffset(t *testing.T) {
	t.Parallel()
	offset, measured, err := ClockOffset()
	must(t, err)
	now := checkNow(t, func(mono int64) int64 { return mono + offset })
	if measured > now {
		t.Errorf("measured at %d, and it is %d", measured, now)
	}
}

// checkNow checks that convert makes the time of day from the monotonic clock, which it returns.
func checkNow(t *testing.T, convert func(mono int64) int64) (mono int64) {
	t.Helper()
	before := time.Now().UnixNano()
	mono, err := Monotonic()
	must(t, err)
	after := time.Now().UnixNano()
	const slack = int64(time.Millisecond)
	if got := convert(mono); got < before-slack || got > after+slack {
		t.Errorf("time %d, the wall clock said %d to %d", got, before, after)
	}
	return mono
}

// An offset that was measured badly is corrected at once. Another one, because the wall clock was
// set, is taken on by Follow.
func TestWall(t *testing.T) {
	t.Parallel()
	truth, _, err := ClockOffset()
	must(t, err)
	for _, test := range []struct {
		name    string
		wrong   time.Duration // the known offset is off by this
		wasSet  bool
		forward time.Duration
	}{
		{"right", 0, false, 0},
		{"measured badly", 300 * time.Microsecond, false, 0},
		{"measured badly the other way", -300 * time.Microsecond, false, 0},
		{"the wall clock was set forward", -time.Hour, true, time.Hour},
		{"the wall clock was set back", time.Hour, true, -time.Hour},
	} {
		w := WallClock{Offset: truth + int64(test.wrong)}
		now, wasSet, err := w.Read()
		must(t, err)
		if wasSet != test.wasSet {
			t.Errorf("%s: was set: %v", test.name, wasSet)
		}
		if wasSet {
			if w.Until != 0 || w.Offset != truth+int64(test.wrong) {
				t.Errorf("%s: followed already: %+v", test.name, w)
			}
			if forward := w.Follow(); (forward - test.forward).Abs() > 200*time.Microsecond {
				t.Errorf("%s: by %v, want %v", test.name, forward, test.forward)
			}
		} else if w.Until != now {
			t.Errorf("%s: read at %d, known until %d", test.name, now, w.Until)
		}
		if off := time.Duration(w.Offset - truth).Abs(); off > 200*time.Microsecond {
			t.Errorf("%s: off by %v in the end", test.name, off)
		}
	}
}

// TimeOf follows at once.
func TestTimeOf(t *testing.T) {
	t.Parallel()
	truth, now, err := ClockOffset()
	must(t, err)
	w := WallClock{Offset: truth + int64(time.Hour)}
	got, err := w.TimeOf(uint64(now))
	if off := got.Sub(time.Unix(0, now+truth)).Abs(); err != nil || off > 200*time.Microsecond {
		t.Errorf("off by %v, %v", off, err)
	}
}
