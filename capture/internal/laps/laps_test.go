package laps

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Laps count between Begin and End, and there what has not ended is Writing.
func TestLaps(t *testing.T) {
	t.Parallel()
	var l Laps
	l.Lap(Reading)
	if l.spent != (Times{}) {
		t.Errorf("measured before the beginning: %v", l.spent)
	}
	l.Begin()
	l.last = l.last.Add(-100 * time.Hour)
	l.Lap(Waiting)
	l.last = l.last.Add(-10 * time.Hour)
	l.Lap(Reading)
	l.last = l.last.Add(-time.Hour)
	got := l.End()
	for o, d := range got {
		got[o] = d.Round(time.Hour) // on a busy machine the test itself takes some time
	}
	want := Times{Waiting: 100 * time.Hour, Reading: 10 * time.Hour, Writing: time.Hour}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
