package main

import (
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// latencyReading is what latency prints with --json. Times are in nanoseconds, and since the start.
type latencyReading struct {
	moment
	Interface string              `json:"interface"`
	Program   string              `json:"program"`
	ProgramID uint32              `json:"program_id"`
	Method    string              `json:"method"`                    // "fentry-fexit" or "builtin"
	Added     *int64              `json:"probes_add_ns,omitempty"`   // fentry-fexit: to each packet
	Floor     *int64              `json:"probes_floor_ns,omitempty"` // fentry-fexit: what they measure of nothing
	Verdicts  map[string]runTimes `json:"verdicts"`                  // by name, those that there were
	Total     runTimes            `json:"total"`
	CPUs      []cpuRunTimes       `json:"cpus,omitempty"` // with --per-cpu, those that ran it
	Histogram []timeRange         `json:"histogram"`      // of all verdicts; without ranges that are empty
	Lost      uint64              `json:"lost"`           // builtin: measurements that did not get through the ring; they are counted here

	total meter.Histogram
}

// runTimes are the run times of one verdict.
type runTimes struct {
	Runs uint64  `json:"runs"`
	Rate float64 `json:"runs_per_s"` // in the interval
	Sum  int64   `json:"sum_ns"`
	Mean int64   `json:"mean_ns"`
	Min  int64   `json:"min_ns"`
	P50  int64   `json:"p50_ns"`
	P90  int64   `json:"p90_ns"`
	P99  int64   `json:"p99_ns"`
	P999 int64   `json:"p99_9_ns"`
	Max  int64   `json:"max_ns"`
}

type cpuRunTimes struct {
	CPU int `json:"cpu"`
	runTimes
}

// A timeRange is the runs that took at least From and less than To.
type timeRange struct {
	From int64  `json:"from_ns"`
	To   int64  `json:"to_ns"`
	Runs uint64 `json:"runs"`
}

func newLatencyReading(iface string, p xdp.Program, method string, cost *meter.ProbeCost, perCPU bool, sp span[meter.LatencyCounts]) *latencyReading {
	r := &latencyReading{
		moment:    sp.moment(),
		Interface: iface,
		Program:   p.Name,
		ProgramID: p.ID,
		Method:    method,
		Verdicts:  make(map[string]runTimes),
		Histogram: []timeRange{},
		Lost:      sp.now.Lost,
		total:     sp.now.Total(),
	}
	if cost != nil {
		added, floor := cost.Added.Nanoseconds(), cost.Floor.Nanoseconds()
		r.Added, r.Floor = &added, &floor
	}
	before := sp.before.Total()
	r.Total = newRunTimes(before.Count, &r.total, sp.took)
	for v := range sp.now.Verdicts {
		if h := &sp.now.Verdicts[v]; h.Count > 0 {
			r.Verdicts[verdictName(v)] = newRunTimes(sp.before.Verdicts[v].Count, h, sp.took)
		}
	}
	for cpu := range sp.now.CPUs {
		h := &sp.now.CPUs[cpu]
		if !perCPU || h.Count == 0 {
			continue
		}
		var before uint64
		if cpu < len(sp.before.CPUs) {
			before = sp.before.CPUs[cpu].Count
		}
		r.CPUs = append(r.CPUs, cpuRunTimes{cpu, newRunTimes(before, h, sp.took)})
	}
	for _, rg := range ranges(&r.total, 4) {
		if rg.Runs > 0 {
			r.Histogram = append(r.Histogram, rg)
		}
	}
	return r
}

func newRunTimes(before uint64, h *meter.Histogram, took time.Duration) runTimes {
	return runTimes{
		Runs: h.Count,
		Rate: perSecond(before, h.Count, took),
		Sum:  h.Sum.Nanoseconds(),
		Mean: h.Mean().Nanoseconds(),
		Min:  h.Min.Nanoseconds(),
		P50:  h.Quantile(0.5).Nanoseconds(),
		P90:  h.Quantile(0.9).Nanoseconds(),
		P99:  h.Quantile(0.99).Nanoseconds(),
		P999: h.Quantile(0.999).Nanoseconds(),
		Max:  h.Max.Nanoseconds(),
	}
}

func (r *latencyReading) json() any { return r }

func (r *latencyReading) table(w io.Writer) {
	t := newTimesTable("VERDICT")
	for v := range (meter.LatencyCounts{}).Verdicts {
		if times, ok := r.Verdicts[verdictName(v)]; ok {
			times.addTo(t, verdictName(v))
		}
	}
	r.Total.addTo(t, "total")
	t.write(w)
	if r.CPUs != nil {
		t := newTimesTable("CPU")
		for _, c := range r.CPUs {
			c.addTo(t, strconv.Itoa(c.CPU))
		}
		t.write(w)
	}
	if r.Added != nil {
		fmt.Fprintf(w, "the probes add %s to each packet, and measure %s of a program that does nothing\n",
			brief(time.Duration(*r.Added)), brief(time.Duration(*r.Floor)))
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "%d measurements did not get through the ring; they are counted here\n", r.Lost)
	}
	r.draw(w)
}

func newTimesTable(of string) *table {
	t := &table{}
	t.add(of, "RUNS", "RUNS/S", "MIN", "P50", "P90", "P99", "P99.9", "MAX", "MEAN")
	return t
}

func (rt *runTimes) addTo(t *table, of string) {
	cells := []string{of, fmt.Sprint(rt.Runs), scaled(rt.Rate)}
	for _, ns := range []int64{rt.Min, rt.P50, rt.P90, rt.P99, rt.P999, rt.Max, rt.Mean} {
		cell := "-"
		if rt.Runs > 0 {
			cell = brief(time.Duration(ns))
		}
		cells = append(cells, cell)
	}
	t.add(cells...)
}

const (
	maxBars  = 20 // lines of a histogram, so that it fits onto a terminal with the table
	barWidth = 50
)

// draw draws the histogram with as many steps in a power of two as fit.
func (r *latencyReading) draw(w io.Writer) {
	if r.total.Count == 0 {
		return
	}
	var bars []timeRange
	for _, steps := range []int{8, 4, 2, 1} {
		if bars = ranges(&r.total, steps); len(bars) <= maxBars {
			break
		}
	}
	var most uint64
	for _, b := range bars {
		most = max(most, b.Runs)
	}
	t := table{}
	t.add("FROM", "TO", "RUNS", "")
	for _, b := range bars {
		t.add(brief(time.Duration(b.From)), brief(time.Duration(b.To)), fmt.Sprint(b.Runs), bar(b.Runs, most))
	}
	t.write(w)
}

// bar is never empty where there was something. It fills its column, for the table aligns it to the right.
func bar(n, most uint64) string {
	length := int((n*barWidth + most - 1) / most)
	return strings.Repeat("#", length) + strings.Repeat(" ", barWidth-length)
}

// ranges cuts a histogram at each power of two and, in between, into equal steps, from the first that is not
// empty to the last.
func ranges(h *meter.Histogram, steps int) (cut []timeRange) {
	if h.Count == 0 {
		return nil
	}
	// What is longer than the last bucket is in the last range.
	least, last := uint64(min(h.Min, meter.MaxBucket-1)), uint64(min(h.Max, meter.MaxBucket-1))
	var from, below uint64
	for exp := max(bits.Len64(least)-1, 0); from <= last; exp++ {
		for step := 1; step <= steps && from <= last; step++ {
			to := bound(exp, step, steps)
			if to == from || least >= to {
				continue
			}
			if len(cut) == 0 && least > 0 {
				from = bound(exp, step-1, steps)
			}
			n := h.Below(time.Duration(to))
			cut = append(cut, timeRange{int64(from), int64(to), n - below})
			from, below = to, n
		}
	}
	return cut
}

// bound is a power of two and so many steps towards the next.
func bound(exp, step, steps int) uint64 {
	return uint64(1)<<exp + uint64(1)<<exp*uint64(step)/uint64(steps)
}

// brief is a time in seven characters.
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
