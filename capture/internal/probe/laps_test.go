package probe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Laps measure between Begin and End. A long occupation that has not ended by then counts as
// Writing.
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
		got[o] = d.Round(time.Hour) // the test itself takes time on a busy machine
	}
	want := Times{Waiting: 100 * time.Hour, Reading: 10 * time.Hour, Writing: time.Hour}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A Rest counts the current sleep, and its total never decreases at concurrent calls.
func TestRest(t *testing.T) {
	t.Parallel()
	r := new(Rest)
	stop := make(chan struct{})
	slept := make(chan struct{})
	go func() {
		defer close(slept)
		for {
			select {
			case <-stop:
				return
			default:
				r.Begin()
				r.End()
			}
		}
	}()
	last := time.Duration(0)
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
		now := r.Total()
		if now < last {
			t.Errorf("slept %v, and before that %v", now, last)
			break
		}
		last = now
	}
	close(stop)
	<-slept
	r.Begin()
	for before := r.Total(); r.Total() == before; {
	}
	r.End()
	if before := r.Total(); r.Total() != before {
		t.Error("it goes on to sleep")
	}
}
