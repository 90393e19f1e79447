package counters

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

type (
	latencyInterval = meter.Interval[meter.LatencyCounts]
	runtimeInterval = meter.Interval[meter.RuntimeCounts]
)

// LatencyReport is printed by latency: as a table, or with --json as this object. Numbers are since
// the start, except those of an interval. JSON has each time.Duration in nanoseconds.
type LatencyReport struct {
	IntervalKeys
	Interface string              `json:"interface"`
	Program   string              `json:"program"`
	ProgramID uint32              `json:"program_id"`
	Method    string              `json:"method"`                    // "fentry-fexit"
	Added     *time.Duration      `json:"probes_add_ns,omitempty"`   // per packet
	Floor     *time.Duration      `json:"probes_floor_ns,omitempty"` // the time measured for an empty program
	Verdicts  map[string]runTimes `json:"verdicts"`                  // by name; only verdicts that occurred
	Total     runTimes            `json:"total"`
	CPUs      []cpuRunTimes       `json:"cpus,omitempty"`     // with --per-cpu; only CPUs that ran the program
	Histogram []meter.Range       `json:"histogram"`          // of all verdicts; without empty ranges
	Lately    []meter.Range       `json:"interval_histogram"` // the same, of the interval alone

	counted *meter.LatencyCounts
	first   bool // no run was counted before the interval
}

// runTimes are the run times since the start, and those of the interval alone.
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
	r.count(i, o.perCPU)
	return r
}

// count sets the fields about the interval and the run times.
func (r *LatencyReport) count(i latencyInterval, perCPU bool) {
	lately := i.Now.Since(&i.Before)
	times := func(all, lately *meter.Histogram) runTimes {
		rate := meter.PerSecond(0, lately.Count, i.Took)
		return runTimes{newRunTimes(all, rate), newRunTimes(lately, rate)}
	}
	before, now, added := i.Before.Total(), i.Now.Total(), lately.Total()
	r.counted, r.first = &i.Now, before.Count == 0
	r.IntervalKeys = newIntervalKeys(i)
	r.Total = times(&now, &added)
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
	r.Histogram, r.Lately = nonEmpty(&now), nonEmpty(&added)
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

// jsonSteps is the number of ranges in each power of two, in JSON.
const jsonSteps = 4

// WriteTable prints the report as tables. All times have the same unit.
func (r *LatencyReport) WriteTable(w io.Writer) {
	unit := unitFor(r.Total.Max)
	about := "times in " + unit.name
	if r.Added != nil {
		about += fmt.Sprintf("; the probes add %s to each packet; an empty program measures %s", unit.text(*r.Added), unit.text(*r.Floor))
	}
	frame.PageOf(w).Line("%s", about)
	var t frame.Table
	t.Add(timesTitles("VERDICT")...)
	r.addVerdicts(&t, unit, func(rt runTimes) RunTimes { return rt.RunTimes })
	if !r.first {
		t.Add(timesTitles("INTERVAL")...)
		r.addVerdicts(&t, unit, func(rt runTimes) RunTimes { return rt.Interval })
	}
	t.Write(w)
	if r.CPUs != nil {
		var t frame.Table
		t.Add(timesTitles("CPU")...)
		for _, c := range r.CPUs {
			t.Add(unit.cells(strconv.Itoa(c.CPU), c.RunTimes)...)
		}
		t.Write(w)
	}
	r.draw(frame.PageOf(w), unit)
}

// addVerdicts adds a line for each verdict that occurred, and one for all. of chooses the run times
// since the start or those of the interval.
func (r *LatencyReport) addVerdicts(t *frame.Table, unit timeUnit, of func(runTimes) RunTimes) {
	for v := range (meter.LatencyCounts{}).Verdicts {
		name := verdictName(v)
		if times := of(r.Verdicts[name]); times.Runs > 0 {
			t.Add(unit.cells(name, times)...)
		}
	}
	t.Add(unit.cells("total", of(r.Total))...)
}

// timesTitles are the titles of the cells of run times.
func timesTitles(of string) []string {
	return []string{of, "RUNS", "RUNS/S", "MIN", "P50", "P90", "P99", "P99.9", "MAX", "MEAN"}
}

// cells are a line of a table, for timesTitles.
func (u timeUnit) cells(of string, rt RunTimes) []string {
	cells := []string{of, fmt.Sprint(rt.Runs), frame.Scaled(rt.Rate)}
	for _, d := range []time.Duration{rt.Min, rt.P50, rt.P90, rt.P99, rt.P999, rt.Max, rt.Mean} {
		cell := "-"
		if rt.Runs > 0 {
			cell = u.text(d)
		}
		cells = append(cells, cell)
	}
	return cells
}

// A timeUnit is the unit of all times in a table.
type timeUnit struct {
	name   string
	one    time.Duration
	digits int // after the decimal point, for a nanosecond
}

// unitFor returns the unit for times up to the longest.
func unitFor(longest time.Duration) timeUnit {
	switch {
	case longest < 100*time.Microsecond:
		return timeUnit{"ns", time.Nanosecond, 0}
	case longest < 100*time.Millisecond:
		return timeUnit{"us", time.Microsecond, 3}
	}
	return timeUnit{"ms", time.Millisecond, 6}
}

// text is a time with at least three digits, without the unit.
func (u timeUnit) text(d time.Duration) string {
	n := float64(d) / float64(u.one)
	digits := 0
	for at := n; digits < u.digits && at > 0 && at < 100; at *= 10 {
		digits++
	}
	return strconv.FormatFloat(n, 'f', digits, 64)
}

const (
	mostRanges = 20 // lines of a histogram, so that it fits onto a terminal with the table above it
	mostBar    = 50 // columns
)

// draw draws a histogram for each verdict, beside each other. All bars have the same scale.
func (r *LatencyReport) draw(p *frame.Page, unit timeUnit) {
	all := r.counted.Total()
	if all.Count == 0 {
		return
	}
	ranges := all.FewRanges(mostRanges)
	titles, columns := []string{"FROM", "TO"}, [][]uint64(nil)
	var most uint64
	for v := range r.counted.Verdicts {
		h := &r.counted.Verdicts[v]
		if h.Count == 0 {
			continue
		}
		titles = append(titles, verdictName(v), "")
		var column []uint64
		for _, one := range ranges {
			n := h.Below(one.To) - h.Below(one.From)
			column, most = append(column, n), max(most, n)
		}
		columns = append(columns, column)
	}
	// A time has at most 7 columns, a number as many as the largest or as a verdict's name, and
	// there are 2 between columns.
	number := max(len(fmt.Sprint(most)), len("redirect"))
	room := cmp.Or(p.Columns, frame.MaxColumns) - 2*(7+2) - len(columns)*(number+2+2)
	bar := max(0, min(mostBar, room/len(columns)))
	t := frame.Table{}
	t.Add(titles...)
	for i, one := range ranges {
		cells := []string{unit.text(one.From), unit.text(one.To)}
		for _, column := range columns {
			cells = append(cells, fmt.Sprint(column[i]), p.Bar(float64(column[i])/float64(most), bar))
		}
		t.Add(cells...)
	}
	t.Write(p)
}

// RuntimeReport is printed by latency --kernel-stats: as a table, or with --json as this object.
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

func newRuntimeReport(m *meter.Runtime, i runtimeInterval) *RuntimeReport {
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
	unit, lately := unitFor(max(r.Mean, r.IntervalMean)), "-"
	if r.IntervalMean > 0 {
		lately = unit.text(r.IntervalMean) + unit.name
	}
	t.Add(r.Program, fmt.Sprint(r.Runs), frame.Scaled(r.Rate), unit.text(r.Mean)+unit.name, lately)
	t.Write(w)
}
