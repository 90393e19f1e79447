package counters

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

type latencyInterval = meter.Interval[meter.LatencyCounts]

// LatencyReport is what latency prints: as a table, or with --json as this object. Times are in
// nanoseconds, which is how JSON shows a time.Duration, and since the start, but for those of the
// interval.
type LatencyReport struct {
	IntervalKeys
	Interface string              `json:"interface"`
	Program   string              `json:"program"`
	ProgramID uint32              `json:"program_id"`
	Method    string              `json:"method"`                    // "fentry-fexit"
	Added     *time.Duration      `json:"probes_add_ns,omitempty"`   // per packet
	Floor     *time.Duration      `json:"probes_floor_ns,omitempty"` // measured for a program that does nothing
	Verdicts  map[string]runTimes `json:"verdicts"`                  // by name; only verdicts that occurred
	Total     runTimes            `json:"total"`
	CPUs      []cpuRunTimes       `json:"cpus,omitempty"`     // with --per-cpu; only CPUs that ran the program
	Histogram []meter.Range       `json:"histogram"`          // of all verdicts; without empty ranges
	Lately    []meter.Range       `json:"interval_histogram"` // the same, of the interval alone

	total meter.Histogram // of all verdicts
	first bool            // nothing was counted before the interval, which has everything
}

// runTimes are those since the start, and those of the interval alone.
type runTimes struct {
	RunTimes
	Interval RunTimes `json:"interval"`
}

// RunTimes summarize a histogram of run times. Times are 0 if there was no run.
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

func newRunTimes(h *meter.Histogram, rate float64) RunTimes {
	return RunTimes{
		Runs: h.Count,
		Rate: rate,
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

type cpuRunTimes struct {
	CPU int `json:"cpu"`
	runTimes
}

func newLatencyReport(o *LatencyOptions, m *meter.Latency, cost *meter.ProbeCost, i latencyInterval) *LatencyReport {
	r := &LatencyReport{
		Interface: m.Interface().Name,
		Program:   m.Program().Name,
		ProgramID: m.Program().ID,
		Method:    byTrace,
	}
	if cost != nil {
		r.Added, r.Floor = &cost.Added, &cost.Floor
	}
	r.count(i, o.PerCPU)
	return r
}

// count fills in the interval and what was measured.
func (r *LatencyReport) count(i latencyInterval, perCPU bool) {
	lately := i.Now.Since(&i.Before)
	times := func(all, lately *meter.Histogram) runTimes {
		rate := meter.PerSecond(0, lately.Count, i.Took)
		return runTimes{newRunTimes(all, rate), newRunTimes(lately, rate)}
	}
	before, added := i.Before.Total(), lately.Total()
	r.total, r.first = i.Now.Total(), before.Count == 0
	r.IntervalKeys = newIntervalKeys(i)
	r.Total = times(&r.total, &added)
	r.Verdicts = make(map[string]runTimes)
	for v := range i.Now.Verdicts {
		if h := &i.Now.Verdicts[v]; h.Count > 0 {
			r.Verdicts[verdictName(v)] = times(h, &lately.Verdicts[v])
		}
	}
	if perCPU {
		for cpu := range i.Now.CPUs {
			if h := &i.Now.CPUs[cpu]; h.Count > 0 {
				r.CPUs = append(r.CPUs, cpuRunTimes{cpu, times(h, &lately.CPUs[cpu])})
			}
		}
	}
	r.Histogram, r.Lately = nonEmpty(&r.total), nonEmpty(&added)
}

// nonEmpty returns the ranges of a histogram that have runs. It is never nil, which JSON would
// show as null.
func nonEmpty(h *meter.Histogram) []meter.Range {
	ranges := []meter.Range{}
	for _, one := range h.Ranges(jsonSteps) {
		if one.Runs > 0 {
			ranges = append(ranges, one)
		}
	}
	return ranges
}

// jsonSteps is how many ranges JSON has in each power of two.
const jsonSteps = 4

// WriteTable prints the report as tables.
func (r *LatencyReport) WriteTable(w io.Writer) {
	var t frame.Table
	t.Add(timesTitles("VERDICT")...)
	r.addVerdicts(&t, func(rt runTimes) RunTimes { return rt.RunTimes })
	if !r.first {
		t.Add(timesTitles("INTERVAL")...)
		r.addVerdicts(&t, func(rt runTimes) RunTimes { return rt.Interval })
	}
	t.Write(w)
	if r.CPUs != nil {
		var t frame.Table
		t.Add(timesTitles("CPU")...)
		for _, c := range r.CPUs {
			t.Add(timesCells(strconv.Itoa(c.CPU), c.RunTimes)...)
		}
		t.Write(w)
	}
	if r.Added != nil {
		fmt.Fprintf(w, "the probes add %s to each packet, and measure %s for a program that does nothing\n",
			brief(*r.Added), brief(*r.Floor))
	}
	r.draw(w)
}

// addVerdicts adds a line for each verdict that occurred, and one for all.
func (r *LatencyReport) addVerdicts(t *frame.Table, of func(runTimes) RunTimes) {
	for v := range (meter.LatencyCounts{}).Verdicts {
		name := verdictName(v)
		if times := of(r.Verdicts[name]); times.Runs > 0 {
			t.Add(timesCells(name, times)...)
		}
	}
	t.Add(timesCells("total", of(r.Total))...)
}

// timesTitles are the titles of timesCells.
func timesTitles(of string) []string {
	return []string{of, "RUNS", "RUNS/S", "MIN", "P50", "P90", "P99", "P99.9", "MAX", "MEAN"}
}

// timesCells are a line of a table.
func timesCells(of string, rt RunTimes) []string {
	cells := []string{of, fmt.Sprint(rt.Runs), frame.Scaled(rt.Rate)}
	for _, d := range []time.Duration{rt.Min, rt.P50, rt.P90, rt.P99, rt.P999, rt.Max, rt.Mean} {
		cell := "-"
		if rt.Runs > 0 {
			cell = brief(d)
		}
		cells = append(cells, cell)
	}
	return cells
}

const (
	maxBars  = 20 // lines of a histogram, so that it fits onto a terminal with the table above it
	barWidth = 50
)

// draw draws the histogram.
func (r *LatencyReport) draw(w io.Writer) {
	if r.total.Count == 0 {
		return
	}
	bars := r.total.FewRanges(maxBars)
	var most uint64
	for _, b := range bars {
		most = max(most, b.Runs)
	}
	t := frame.Table{}
	t.Add("FROM", "TO", "RUNS", "")
	for _, b := range bars {
		t.Add(brief(b.From), brief(b.To), fmt.Sprint(b.Runs), bar(b.Runs, most))
	}
	t.Write(w)
}

// bar shows n out of most. It is empty only if n is 0. It ends with spaces, because the table
// aligns its columns to the right.
func bar(n, most uint64) string {
	length := int(math.Ceil(barWidth * float64(n) / float64(max(most, n, 1))))
	return strings.Repeat("#", length) + strings.Repeat(" ", barWidth-length)
}

// brief formats a time in at most seven characters.
func brief(d time.Duration) string {
	ns := float64(d.Nanoseconds())
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%dns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.1fus", ns/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1fms", ns/1e6)
	}
	return fmt.Sprintf("%.1fs", ns/1e9)
}

// RuntimeReport is what latency --kernel-stats prints: as a table, or with --json as this object.
type RuntimeReport struct {
	IntervalKeys
	Interface    string        `json:"interface"`
	Program      string        `json:"program"`
	ProgramID    uint32        `json:"program_id"`
	Method       string        `json:"method"` // "kernel-stats"
	Runs         uint64        `json:"runs"`
	Rate         float64       `json:"runs_per_s"`
	Sum          time.Duration `json:"sum_ns"`
	Mean         time.Duration `json:"mean_ns"`          // since the start
	IntervalMean time.Duration `json:"interval_mean_ns"` // in the interval; 0 if no run
}

func newRuntimeReport(m *meter.Runtime, i meter.Interval[meter.RuntimeCounts]) *RuntimeReport {
	return &RuntimeReport{
		IntervalKeys: newIntervalKeys(i),
		Interface:    m.Interface().Name,
		Program:      m.Program().Name,
		ProgramID:    m.Program().ID,
		Method:       byKernel,
		Runs:         i.Now.Runs,
		Rate:         meter.PerSecond(i.Before.Runs, i.Now.Runs, i.Took),
		Sum:          i.Now.Time,
		Mean:         i.Now.Mean(meter.RuntimeCounts{}),
		IntervalMean: i.Now.Mean(i.Before),
	}
}

// WriteTable prints the report as tables.
func (r *RuntimeReport) WriteTable(w io.Writer) {
	t := frame.Table{}
	t.Add("PROGRAM", "RUNS", "RUNS/S", "MEAN", "IN THE INTERVAL")
	lately := "-"
	if r.IntervalMean > 0 {
		lately = brief(r.IntervalMean)
	}
	t.Add(frame.Shorten(r.Program, 40), fmt.Sprint(r.Runs), frame.Scaled(r.Rate), brief(r.Mean), lately)
	t.Write(w)
}
