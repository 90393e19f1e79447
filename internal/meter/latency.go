package meter

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type histogram -type limit -type replayed latency ../../bpf/latency.c

// Latency measures how long an XDP program runs.
type Latency struct {
	*attachment
	histograms *ebpf.Map
	owned      []*ebpf.Map
}

// OpenLatency measures the program that runs on an interface by fentry and fexit, from its entry to
// its exit. That includes programs that it calls, also by tail call.
//
// program is the name or id of one program if the interface runs several, or the id of a program
// that runs elsewhere; "" = the program that the interface runs.
func OpenLatency(iface, program string) (*Latency, error) {
	defer runtime.KeepAlive(xdp.KernelTypes()) // all programs are loaded with the same
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	ifi, err := xdp.EthernetInterface(iface)
	if err != nil {
		return nil, err
	}
	if len(ifi.Programs) == 0 && program == "" {
		return nil, fmt.Errorf("%s runs no XDP program: attach the one to measure", ifi.Name)
	}
	l := &Latency{}
	if err := l.trace(ifi, program); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// trace attaches both probes.
func (l *Latency) trace(ifi xdp.Interface, program string) error {
	spec, err := loadLatency()
	if err != nil {
		return err
	}
	t, err := l.tracers(spec)
	if err != nil {
		return err
	}
	l.attachment, err = trace(ifi, program, t)
	return err
}

// tracers are both probes. It creates their maps.
func (l *Latency) tracers(spec *ebpf.CollectionSpec) (tracers, error) {
	maps, err := l.probeMaps(spec)
	return tracers{
		spec:    spec,
		names:   probeNames,
		load:    func(name string) (*ebpf.Program, error) { return loadProgram(spec, name, maps) },
		refused: ErrNotMeasurable,
	}, err
}

// probeNames are the probes in the order of attaching and detaching: exit first. Attached first, it
// counts nothing until the entry's probe is there. It is also detached first: if the entry's probe
// went first, a packet inside would leave without running the exit's probe, and the exit of the
// next packet would use its note.
var probeNames = []string{latencyProgNoteExit, latencyProgNoteEntry}

// probeMaps creates the maps that both probes share, and returns them by their names.
func (l *Latency) probeMaps(spec *ebpf.CollectionSpec) (map[string]**ebpf.Map, error) {
	entries, err := l.newMap(spec, latencyMapEntries)
	if err != nil {
		return nil, err
	}
	if l.histograms, err = l.newMap(spec, latencyMapHistograms); err != nil {
		return nil, err
	}
	return map[string]**ebpf.Map{latencyMapEntries: &entries, latencyMapHistograms: &l.histograms}, nil
}

func (l *Latency) newMap(spec *ebpf.CollectionSpec, name string) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(spec.Maps[name])
	if err != nil {
		return nil, support.ExplainLoad("create map "+name, err)
	}
	l.owned = append(l.owned, m)
	return m, nil
}

// Read reads all counters, cumulative since Open.
func (l *Latency) Read() (c LatencyCounts, err error) {
	for v := range c.Verdicts {
		var slots []latencyHistogram
		if err := l.histograms.Lookup(uint32(v), &slots); err != nil {
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

// Close detaches from the program, and releases everything.
func (l *Latency) Close() error {
	var errs []error
	if l.attachment != nil {
		errs = append(errs, l.attachment.close())
	}
	for _, m := range l.owned {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
