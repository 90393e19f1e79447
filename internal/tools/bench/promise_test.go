package main

import (
	"strings"
	"testing"
)

// With an earlier report, each promise has two figures.
func TestPromisesBefore(t *testing.T) {
	t.Parallel()
	r := testReport()
	r.Before = testReport()
	r.Before.Costs[4].KernelNs = ns(60)
	var b strings.Builder
	r.printPromises(&b)
	if want := "\nok     program: 64 bytes                                 <= 40 ns     40 ns     60 ns     39 ns  clock, copy\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no line %q in:\n%s", want, b.String())
	}
}

// Without figures no promise is kept, and none is missed.
func TestPromisesWithoutFigures(t *testing.T) {
	t.Parallel()
	for _, p := range (&Report{}).promises() {
		if p.verdict() != noFigure {
			t.Errorf("%s: %s", p.what, p.verdict())
		}
	}
}

// If packets were lost at every rate, the promise is missed: that is not a missing figure.
func TestPromiseAlwaysLost(t *testing.T) {
	t.Parallel()
	r := testReport()
	for i := range r.Frames[1].Rows {
		if row := &r.Frames[1].Rows[i]; row.Name == sinkName(ring) {
			row.Rate, row.OfDrop, row.Captured = 0, 0, 0.8
		}
	}
	for _, p := range r.promises() {
		if strings.HasPrefix(p.what, "--sink, 1518 bytes") && p.verdict() != "missed" {
			t.Errorf("%s: %s", p.what, p.verdict())
		}
	}
}
