package meter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPerSecond(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		before, now uint64
		took        time.Duration
		want        float64
	}{
		{"a second", 10, 40, time.Second, 30},
		{"part of a second", 10, 40, 200 * time.Millisecond, 150},
		{"nothing new", 40, 40, time.Second, 0},
		{"a counter that began again", 40, 10, time.Second, 0},
		{"no time", 10, 40, 0, 0},
		{"a clock that went backwards", 10, 40, -time.Second, 0},
		{"large counters", 1<<64 - 11, 1<<64 - 1, time.Second, 10},
	} {
		if got := PerSecond(test.before, test.now, test.took); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestNewRate(t *testing.T) {
	t.Parallel()
	got := NewRate(Tally{Packets: 10, Bytes: 1000}, Tally{Packets: 30, Bytes: 5000}, 2*time.Second)
	want := Rate{Packets: 30, Bytes: 5000, PacketsPerSecond: 10, BitsPerSecond: 16000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Intervals follow each other without a gap, and Whole begins when the counters were opened.
func TestInterval(t *testing.T) {
	t.Parallel()
	var start Interval[uint64]
	at := time.Unix(1e9, 0)
	first := start.Next(10, at, 2*time.Second)
	second := first.Next(25, at.Add(3*time.Second), 5*time.Second)
	for _, test := range []struct {
		name      string
		got, want Interval[uint64]
	}{
		{"first", first, Interval[uint64]{Before: 0, Now: 10, End: at, Took: 2 * time.Second, Elapsed: 2 * time.Second}},
		{"second", second, Interval[uint64]{Before: 10, Now: 25, End: at.Add(3 * time.Second), Took: 3 * time.Second, Elapsed: 5 * time.Second}},
		{"whole", second.Whole(), Interval[uint64]{Before: 0, Now: 25, End: at.Add(3 * time.Second), Took: 5 * time.Second, Elapsed: 5 * time.Second}},
		{"whole of nothing", start.Whole(), start},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
