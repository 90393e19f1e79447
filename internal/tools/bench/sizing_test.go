package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// 10 Gbit/s of the shortest frames are 14.88 million packets per second, a well-known figure.
func TestNeeds(t *testing.T) {
	t.Parallel()
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
		{"rings", s.needs(10, 64, 1).rings, pps * float64(64+recordExtra) * 0.05},
		{"output", s.needs(10, 64, 1).output, pps * (60 + 64)},
		{"memory", s.needs(10, 64, 1).memory, pps * 2 * float64(64+recordExtra+60+64)},
	} {
		if math.Abs(test.got-test.want) > 1e-6*test.want {
			t.Errorf("%s: %g, want %g", test.name, test.got, test.want)
		}
	}
}

// A ring holds what its CPU receives in a pause of the reader, in a size that -B accepts.
func TestBuffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rings, cpus float64
		want        string
	}{
		{1e6, 0.3, "8M"}, {65e6, 0.3, "64M"}, {283e6, 9.3, "32M"}, {653e6, 3.02, "256M"}, {653e6, 0.5, ">256M"},
	} {
		if got := bufferFlag((needs{rings: test.rings, cpus: test.cpus}).buffer()); got != test.want {
			t.Errorf("%+v: -B %s, want %s", test, got, test.want)
		}
	}
}

// Larger rings are recommended if they lose less.
func TestRooms(t *testing.T) {
	t.Parallel()
	const all = "Of unpaced packets of 1518 bytes, into a file on a disk %s of 3.000 Mpps are captured with the rings of 8 MiB, and all of 3.000 Mpps with -B 64M. %s"
	for _, test := range []struct {
		captured        float64
		said, recommend string
	}{
		{0.9, "90.0 %", "So give long packets at high rates -B 64M."},
		{0.9999, "99.9 %", "So larger rings change nothing at such a rate on this machine; they help where the reader is kept away for longer."},
		{1, "all", "So larger rings change nothing at such a rate on this machine; they help where the reader is kept away for longer."},
	} {
		r := testResults(t)
		r.set(sheet{size: longSize, to: onDisk}.name("Unpaced", sinkName(ring)), unitCaptured, test.captured)
		var b strings.Builder
		r.printRooms(&b)
		if got, want := oneLine(b.String()), fmt.Sprintf(all, test.said, test.recommend); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	var b strings.Builder
	if (&results{}).printRooms(&b); b.Len() > 0 {
		t.Errorf("without figures: %s", b.String())
	}
}

// The reader's time is that of filled rings of two CPUs if it was measured.
func TestSizingReader(t *testing.T) {
	t.Parallel()
	r := testResults(t)
	if s := r.sizing(shortSize); !s.isComplete() || s.reader != 24 || s.live != 40 {
		t.Errorf("%+v", s)
	}
	delete(r.values, (&drainage{size: shortSize, rings: 2, to: nowhere}).benchmark(wholeName))
	if s := r.sizing(shortSize); !s.isComplete() || s.reader != 40 {
		t.Errorf("%+v", s)
	}
	if s := r.sizing(smallSize); s.isComplete() {
		t.Errorf("%+v", s)
	}
}

func TestFirstLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		needs needs
		want  string
		part  float64
	}{
		{needs{reader: 0.5, cpus: 16, memory: 30e9, output: 1e9}, "reader", 0.5},
		{needs{reader: 0.1, cpus: 128, memory: 30e9, output: 1e9}, "CPUs", 2},
		{needs{reader: 0.1, cpus: 1, memory: 30e9, output: 5e9}, "output", 1},
	} {
		if what, part := test.needs.nearestLimit(); what != test.want || part != test.part {
			t.Errorf("%+v: %s %g, want %s %g", test.needs, what, part, test.want, test.part)
		}
	}
}
