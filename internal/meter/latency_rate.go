package meter

import "time"

// RunTimes summarize a histogram of run times. All fields but Rate are cumulative; times are 0 if
// there was no run.
type RunTimes struct {
	Runs uint64        `json:"runs"`
	Rate float64       `json:"runs_per_s"` // in the interval
	Sum  time.Duration `json:"sum_ns"`
	Mean time.Duration `json:"mean_ns"`
	Min  time.Duration `json:"min_ns"` // exact, like Max
	P50  time.Duration `json:"p50_ns"` // P50 to P999 are percentiles, as exact as Histogram.Quantile
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p99_9_ns"` // of 99.9 %
	Max  time.Duration `json:"max_ns"`
}

// LatencyRates are the run times at the end of an interval: in total, by verdict and by CPU.
type LatencyRates struct {
	Total    RunTimes
	Verdicts [len(LatencyCounts{}.Verdicts)]RunTimes
	CPUs     []RunTimes
}

// NewLatencyRates compares two snapshots.
func NewLatencyRates(i Interval[LatencyCounts]) LatencyRates {
	before, now := i.Before.Total(), i.Now.Total()
	r := LatencyRates{Total: newRunTimes(before.Count, &now, i.Took)}
	for v := range i.Now.Verdicts {
		r.Verdicts[v] = newRunTimes(i.Before.Verdicts[v].Count, &i.Now.Verdicts[v], i.Took)
	}
	for cpu := range i.Now.CPUs {
		var runs uint64
		if cpu < len(i.Before.CPUs) {
			runs = i.Before.CPUs[cpu].Count
		}
		r.CPUs = append(r.CPUs, newRunTimes(runs, &i.Now.CPUs[cpu], i.Took))
	}
	return r
}

// newRunTimes takes the number of runs before the interval, and the histogram at its end.
func newRunTimes(before uint64, h *Histogram, took time.Duration) RunTimes {
	return RunTimes{
		Runs: h.Count,
		Rate: PerSecond(before, h.Count, took),
		Sum:  h.Sum,
		Mean: h.Mean(),
		Min:  h.Min,
		P50:  h.Quantile(0.5),
		P90:  h.Quantile(0.9),
		P99:  h.Quantile(0.99),
		P999: h.Quantile(0.999),
		Max:  h.Max,
	}
}
