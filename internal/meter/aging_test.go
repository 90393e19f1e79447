package meter

import (
	"slices"
	"testing"
	"time"
)

// Only quiet entries are forgotten, the smallest first, and only as many as exceed the limit.
func TestAging(t *testing.T) {
	t.Parallel()
	start := time.Now()
	a := Aging[string]{Keep: 2}
	look := func(after time.Duration, table map[string]uint64, want ...string) {
		t.Helper()
		got := a.quietKeys(start.Add(after), table)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
	if !a.isDue(start) {
		t.Error("the first look is not due")
	}
	look(0, map[string]uint64{"large": 100, "medium": 10, "small": 1})
	if a.isDue(start.Add(agingInterval-1)) || !a.isDue(start.Add(agingInterval)) {
		t.Errorf("the next look is not due after %v", agingInterval)
	}
	look(30*time.Second, map[string]uint64{"large": 100, "medium": 10, "small": 2, "new": 1})
	look(60*time.Second, map[string]uint64{"large": 100, "medium": 10, "small": 2, "new": 1}, "large", "medium")
	look(90*time.Second, map[string]uint64{"large": 100, "medium": 11, "small": 2, "new": 1}, "new", "small")
	look(91*time.Second, map[string]uint64{"large": 100, "medium": 11})
	look(92*time.Second, map[string]uint64{"large": 100, "medium": 11, "new": 1}, "large")
	look(200*time.Second, map[string]uint64{"medium": 11, "new": 1})
}
