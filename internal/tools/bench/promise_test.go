package main

import (
	"strings"
	"testing"
)

// With an earlier report, each promise has two figures.
func TestPromisesBefore(t *testing.T) {
	t.Parallel()
	before := testResults(t)
	before.set(programCost(wholeName, ring, shortSize), unitNsPacket, 60)
	var b strings.Builder
	testResults(t).printPromises(&b, before)
	if want := "\nok     program: 64 bytes                                 <= 40 ns     40 ns     60 ns     39 ns  clock, copy\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no line %q in:\n%s", want, b.String())
	}
}

// Without figures no promise is kept, and none is missed.
func TestPromisesWithoutFigures(t *testing.T) {
	t.Parallel()
	for _, p := range (&results{}).promises() {
		if p.verdict() != noFigure {
			t.Errorf("%s: %s", p.name, p.verdict())
		}
	}
}

// If packets were lost at every rate, the promise is missed: that is not a missing figure.
func TestPromiseAlwaysLost(t *testing.T) {
	t.Parallel()
	r := testResults(t)
	r.set(unpaced(sinkName(ring), longSize), unitCaptured, 0.8)
	r.set(lossless(sinkName(ring), longSize), unitPPS, 0)
	r.set(lossless(sinkName(ring), longSize), unitOfDrop, 0)
	for _, p := range r.promises() {
		if strings.HasPrefix(p.name, "--sink, 1518 bytes") && p.verdict() != "missed" {
			t.Errorf("%s: %s", p.name, p.verdict())
		}
	}
}
