package meter

import (
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What was counted in an interval has its own percentiles, however long the run before it was.
func TestLatencySince(t *testing.T) {
	t.Parallel()
	var before, now LatencyCounts
	before.CPUs = make([]Histogram, 1)
	for range 10_000 {
		before.Verdict(xdp.Pass).Observe(100)
	}
	before.CPUs[0].Add(before.Verdict(xdp.Pass))
	now = before
	now.CPUs = []Histogram{before.CPUs[0], {}}
	for d := range time.Duration(1000) {
		now.Verdict(xdp.Pass).Observe(5001 + d)
		now.CPUs[1].Observe(7)
	}
	now.Verdict(xdp.Drop).Observe(20 * time.Second)
	got := now.Since(&before)
	pass, drop := got.Verdict(xdp.Pass), got.Verdict(xdp.Drop)
	near := func(got, want time.Duration) bool { return (got - want).Abs() <= want*3/100 }
	if pass.Count != 1000 || !near(pass.Min, 5001) || !near(pass.Max, 6000) || !near(pass.Quantile(0.5), 5500) || !near(pass.Mean(), 5500) {
		t.Errorf("passes: %d from %v to %v, median %v, mean %v", pass.Count, pass.Min, pass.Max, pass.Quantile(0.5), pass.Mean())
	}
	if drop.Count != 1 || drop.Min != 20*time.Second || drop.Max != 20*time.Second {
		t.Errorf("drops: %d from %v to %v", drop.Count, drop.Min, drop.Max)
	}
	if got.CPUs[0].Count != 0 || got.CPUs[1].Count != 1000 {
		t.Errorf("CPUs: %d and %d runs", got.CPUs[0].Count, got.CPUs[1].Count)
	}
	if again := now.Since(&now); again.Total() != (Histogram{}) {
		t.Error("something was counted between one reading and itself")
	}
	if total := now.Since(&LatencyCounts{}); total.Total() != now.Total() {
		t.Error("what was counted since the beginning is not all")
	}
}
