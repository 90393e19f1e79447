package counters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// reportOf has what was counted in an interval.
func reportOf(i latencyInterval) (r LatencyReport) {
	r.count(i, true)
	return r
}

func TestRunTimes(t *testing.T) {
	t.Parallel()
	observe := func(h *meter.Histogram, n int, d time.Duration) {
		for range n {
			h.Observe(d)
		}
	}
	i := latencyInterval{Took: 2 * time.Second}
	observe(i.Before.Verdict(xdp.Pass), 4, 10)
	observe(i.Now.Verdict(xdp.Pass), 10, 10)
	observe(i.Now.Verdict(xdp.Drop), 90, 20)
	i.Now.CPUs = make([]meter.Histogram, 2) // none before
	observe(&i.Now.CPUs[1], 100, 10)
	got := reportOf(i)
	pass := RunTimes{Runs: 10, Rate: 3, Sum: 100, Mean: 10, Min: 10, P50: 10, P90: 10, P99: 10, P999: 10, Max: 10}
	lately := pass
	lately.Runs, lately.Sum = 6, 60
	drop := RunTimes{Runs: 90, Rate: 45, Sum: 1800, Mean: 20, Min: 20, P50: 20, P90: 20, P99: 20, P999: 20, Max: 20}
	onCPU := RunTimes{Runs: 100, Rate: 50, Sum: 1000, Mean: 10, Min: 10, P50: 10, P90: 10, P99: 10, P999: 10, Max: 10}
	for _, test := range []struct {
		name      string
		got, want any
	}{
		{"total", got.Total.RunTimes, RunTimes{Runs: 100, Rate: 48, Sum: 1900, Mean: 19, Min: 10, P50: 20, P90: 20, P99: 20, P999: 20, Max: 20}},
		{"pass", got.Verdicts["pass"], runTimes{pass, lately}},
		{"drop", got.Verdicts["drop"], runTimes{drop, drop}},
		{"tx", got.Verdicts["tx"], runTimes{}},
		{"CPUs", got.CPUs, []cpuRunTimes{{1, runTimes{onCPU, onCPU}}}},
	} {
		if diff := cmp.Diff(test.want, test.got, cmp.AllowUnexported(cpuRunTimes{})); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// Each field has its own percentile, and no two of them are mixed up.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	var i latencyInterval
	for d := range time.Duration(10_000) {
		if d >= 9950 {
			d = 999_999 // so that the percentile 99.9 is far from 99
		}
		i.Now.Verdict(xdp.Pass).Observe(d + 1)
	}
	r := reportOf(i).Total
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
