package main

import (
	"testing"
	"time"
)

// The rings are empty when the process has used what its packets take, and not what it takes to go
// on as well.
func TestLapsAdd(t *testing.T) {
	const ms = time.Millisecond
	looks := []look{{0, 0}, {1 * ms, 0}, {2 * ms, 1 * ms}, {3 * ms, 2 * ms}, {20 * ms, 3 * ms}}
	for _, test := range []struct {
		idle      time.Duration
		cpu, rate float64 // ns per packet; packets per second
	}{
		{0, 3000, 50_000}, {1 * ms, 2000, 1000 / 0.003}, {1500 * time.Microsecond, 1500, 400_000},
	} {
		l := laps{packets: 1000}
		l.add(looks, test.idle)
		if l.cpu[0] != test.cpu || int(l.rate[0]+0.5) != int(test.rate+0.5) {
			t.Errorf("%v idle: %+v, want %v", test.idle, l, test)
		}
	}
	l := laps{packets: 1000}
	if l.add(looks, 4*ms); len(l.cpu) > 0 {
		t.Errorf("less than nothing: %+v", l)
	}
}
