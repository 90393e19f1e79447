package main

import (
	"testing"
	"time"
)

// The cost of waking up for a few packets does not count for the others, nor for the time until the
// rings are empty.
func TestLapsFigures(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	// After 3 ms it has used the time of the packets, and after 20 ms also that of waking up.
	samples := []cpuSample{{0, 0}, {1 * ms, 0}, {2 * ms, 1 * ms}, {3 * ms, 2 * ms}, {20 * ms, 3 * ms}}
	full := lap{packets: 1000, cpu: totalCPU(samples), samples: samples}
	few := lap{packets: 100, cpu: 1200 * time.Microsecond}
	for _, test := range []struct {
		name      string
		laps      laps
		cpu, rate float64 // ns per packet; packets per second
	}{
		{"nothing but packets", laps{full: []lap{full}}, 3000, 50_000},
		{"waking up", laps{full: []lap{full, full}, few: []lap{few, few}}, 2000, 1000 / 0.003},
		{"another number of packets", laps{full: []lap{full, {packets: 500, cpu: 1500 * time.Microsecond, samples: samples}}}, 3000, 125_000},
		{"known time", laps{full: []lap{{packets: 1000, cpu: 5 * ms, took: 4 * ms}}}, 5000, 250_000},
	} {
		cpu, rate := test.laps.figures()
		if cpu != test.cpu || int(rate+0.5) != int(test.rate+0.5) {
			t.Errorf("%s: %v and %v, want %v and %v", test.name, cpu, rate, test.cpu, test.rate)
		}
	}
}
