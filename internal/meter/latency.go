package meter

import (
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type histogram -type limit -type replayed latency ../../bpf/latency.c

// Latency measures how long an XDP program runs. Its methods may be called concurrently, except
// Close.
type Latency struct{ counter }

// OpenLatency measures the program that runs on an interface by fentry and fexit, from its entry to
// its exit. That includes programs that it calls, also by tail call.
//
// program is the name or id of one program if the interface runs several, or the id of a program
// that runs elsewhere; "" = the program that the interface runs.
func OpenLatency(iface, program string) (*Latency, error) {
	l, err := newLatency()
	if err != nil {
		return nil, err
	}
	err = l.open(iface, func(ifi xdp.Interface) error {
		if len(ifi.Programs) == 0 && program == "" {
			return fmt.Errorf("%s runs no XDP program: attach the one to measure", ifi.Name)
		}
		return l.trace(ifi, program)
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func newLatency() (*Latency, error) {
	spec, err := loadLatency()
	// The entry's tracer notes the time, and the exit's tracer uses the note. The exit's is
	// attached first, and does not count before it finds a note. It is also detached first: a
	// packet inside the program while tracers change skips the exit's tracer, and leaves its note.
	// If the entry's tracer were detached first, the exit of the next packet would use that note.
	tracers := []string{latencyProgXdpcapExit, latencyProgXdpcapEntry}
	return &Latency{counter{spec: spec, tracers: tracers, refused: ErrNotMeasurable}}, err
}

// Read reads all counters, cumulative since Open.
func (l *Latency) Read() (c LatencyCounts, err error) {
	for v := range c.Verdicts {
		var slots []latencyHistogram
		if err := l.maps[latencyMapHistograms].Lookup(uint32(v), &slots); err != nil {
			return c, fmt.Errorf("read the histograms of run times: %w", err)
		}
		if c.CPUs == nil {
			c.CPUs = make([]Histogram, len(slots))
		}
		for cpu := range slots {
			h := newHistogram(&slots[cpu])
			c.Verdicts[v].Add(h)
			c.CPUs[cpu].Add(h)
		}
	}
	return c, nil
}
