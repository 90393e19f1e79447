package main

import (
	"math"
	"testing"
)

// 10 Gbit/s of the shortest frames are 14.88 million packets per second, as is well known.
func TestNeeds(t *testing.T) {
	s := sizing{drop: 100, sink: 180, skip: 5, reader: 40}
	const pps = 10e9 / 8 / 84
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"packets", s.needs(10, 64, 1).pps, 14.880952e6},
		{"long packets", s.needs(100, 1518, 1).pps, 8.127438e6},
		{"CPUs", s.needs(10, 64, 1).cpus, pps * 180e-9 / 0.8},
		{"added CPUs", s.needs(10, 64, 1).added, pps * 80e-9 / 0.8},
		{"added CPUs, sampled", s.needs(10, 64, sampledPart).added, pps * 5e-9 / 0.8},
		{"reader", s.needs(10, 64, 1).reader, pps * 40e-9},
		{"reader, sampled", s.needs(10, 64, sampledPart).reader, pps * 40e-12},
		{"rings", s.needs(10, 64, 1).rings, pps * (64 + 88) * 0.05},
		{"output", s.needs(10, 64, 1).output, pps * (60 + 64)},
		{"memory", s.needs(10, 64, 1).memory, pps * 2 * (64 + 88 + 60 + 64)},
	} {
		if math.Abs(test.got-test.want) > 1e-6*test.want {
			t.Errorf("%s: %g, want %g", test.name, test.got, test.want)
		}
	}
}

func TestFirstLimit(t *testing.T) {
	for _, test := range []struct {
		needs needs
		want  string
		part  float64
	}{
		{needs{reader: 0.5, cpus: 16, memory: 30e9, output: 1e9}, "reader", 0.5},
		{needs{reader: 0.1, cpus: 128, memory: 30e9, output: 1e9}, "CPUs", 2},
		{needs{reader: 0.1, cpus: 1, memory: 30e9, output: 5e9}, "output", 1},
	} {
		if what, part := test.needs.first(); what != test.want || part != test.part {
			t.Errorf("%+v: %s %g, want %s %g", test.needs, what, part, test.want, test.part)
		}
	}
}
