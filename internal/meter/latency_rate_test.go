package meter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

func TestLatencyRates(t *testing.T) {
	t.Parallel()
	observe := func(h *Histogram, n int, d time.Duration) {
		for range n {
			h.Observe(d)
		}
	}
	i := Interval[LatencyCounts]{Took: 2 * time.Second}
	observe(i.Before.Verdict(xdp.Pass), 4, 10)
	observe(i.Now.Verdict(xdp.Pass), 10, 10)
	observe(i.Now.Verdict(xdp.Drop), 90, 20)
	i.Now.CPUs = make([]Histogram, 2) // none before
	observe(&i.Now.CPUs[1], 100, 10)
	got := NewLatencyRates(i)
	pass := RunTimes{Runs: 10, Rate: 3, Sum: 100, Mean: 10, Min: 10, P50: 10, P90: 10, P99: 10, P999: 10, Max: 10}
	drop := RunTimes{Runs: 90, Rate: 45, Sum: 1800, Mean: 20, Min: 20, P50: 20, P90: 20, P99: 20, P999: 20, Max: 20}
	for _, test := range []struct {
		name      string
		got, want any
	}{
		{"total", got.Total, RunTimes{Runs: 100, Rate: 48, Sum: 1900, Mean: 19, Min: 10, P50: 20, P90: 20, P99: 20, P999: 20, Max: 20}},
		{"pass", got.Verdicts[xdp.Pass], pass},
		{"drop", got.Verdicts[xdp.Drop], drop},
		{"tx", got.Verdicts[xdp.Tx], RunTimes{}},
		{"CPUs", got.CPUs, []RunTimes{{}, {Runs: 100, Rate: 50, Sum: 1000, Mean: 10, Min: 10, P50: 10, P90: 10, P99: 10, P999: 10, Max: 10}}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// Each field has its own percentile, and no two of them are mixed up.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	var i Interval[LatencyCounts]
	for d := range time.Duration(10_000) {
		if d >= 9950 {
			d = 999_999 // so that the percentile 99.9 is far from 99
		}
		i.Now.Verdict(xdp.Pass).Observe(d + 1)
	}
	r := NewLatencyRates(i).Total
	for _, test := range []struct {
		name      string
		got, want time.Duration
	}{
		{"50", r.P50, 5000}, {"90", r.P90, 9000}, {"99", r.P99, 9900}, {"99.9", r.P999, 1_000_000}, {"min", r.Min, 1}, {"max", r.Max, 1_000_000},
	} {
		if d := (test.got - test.want).Abs(); d > test.want*3/100 {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
}

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
