package meter

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type histogram -type measurement -type limit -type replayed latency ../../bpf/latency.c

// BuiltinOptions say what our own program does. With the zero value it lets every packet pass.
type BuiltinOptions struct {
	Drop   float64  // share of the packets to drop at random, 0 to 1
	Mode   xdp.Mode // the mode to attach it in
	Buffer int      // bytes of each CPU's ring; 0 = 1 MiB

	// Event is called with each measurement, from one goroutine of the meter's own; nil =
	// measurements are only counted.
	Event func(Measurement)
}

// A Measurement is one run of our own program.
type Measurement struct {
	Time    time.Time     // of the entry, CLOCK_REALTIME, exact to about a microsecond
	Took    time.Duration // from the entry to the verdict, CLOCK_MONOTONIC
	Verdict xdp.Verdict
	CPU     int
}

// Latency measures how long an XDP program runs.
type Latency struct {
	*attachment
	histograms *ebpf.Map
	lost       *ebpf.Map   // nil: the program is not ours
	ring       *eventsRing // nil: there is no ring
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
		return nil, errkind.Errorf(ErrNothingToMeasure, "%s runs no XDP program: attach the one to measure", ifi.Name)
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

// OpenBuiltin attaches our own program, which measures itself, to an interface that runs none.
func OpenBuiltin(iface string, o BuiltinOptions) (*Latency, error) {
	defer runtime.KeepAlive(xdp.KernelTypes()) // all programs are loaded with the same
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	if !(o.Drop >= 0 && o.Drop <= 1) {
		return nil, fmt.Errorf("share of packets to drop: %v is not 0 to 1", o.Drop)
	}
	ifi, err := xdp.EthernetInterface(iface)
	if err != nil {
		return nil, err
	}
	if len(ifi.Programs) > 0 {
		return nil, errkind.Errorf(ErrOccupied, "%s runs %v, which xdpcap never replaces: there is no room for a program of its own",
			ifi.Name, ifi.Programs[0])
	}
	l := &Latency{}
	if err := l.attach(ifi, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Latency) attach(ifi xdp.Interface, o BuiltinOptions) error {
	spec, err := loadLatency()
	if err != nil {
		return err
	}
	for name, value := range map[string]any{
		latencyVarDropBelow: uint64(o.Drop * (1 << 32)),
		latencyVarSending:   o.Event != nil,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if l.histograms, err = l.newMap(spec, latencyMapHistograms); err != nil {
		return err
	}
	if l.lost, err = l.newMap(spec, latencyMapLost); err != nil {
		return err
	}
	output, err := l.newMap(spec, latencyMapOutputMap)
	if err != nil {
		return err
	}
	prog, err := loadProgram(spec, latencyProgXdpDilih, map[string]**ebpf.Map{
		latencyMapHistograms: &l.histograms,
		latencyMapLost:       &l.lost,
		latencyMapOutputMap:  &output,
	})
	if err != nil {
		return support.ExplainLoad("load the program that measures itself", err)
	}
	// The ring is opened before attaching, so that the first packet's measurement is not lost.
	if o.Event != nil {
		if l.ring, err = openEventsRing(output, o); err != nil {
			prog.Close()
			return err
		}
	}
	l.attachment, err = attachXDP(ifi, prog, o.Mode)
	return err
}

// Follow does what every meter's Follow does. It also returns the error that ended the reading of
// measurements.
func (l *Latency) Follow() (notice string, err error) {
	if l.ring != nil {
		if err := l.ring.check(); err != nil {
			return "", err
		}
	}
	return l.attachment.Follow()
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
	if l.lost == nil {
		return c, nil
	}
	var lost []uint64
	if err := l.lost.Lookup(uint32(0), &lost); err != nil {
		return c, fmt.Errorf("read the number of lost measurements: %w", err)
	}
	for _, n := range lost {
		c.Lost += n
	}
	return c, nil
}

// Close detaches from the interface, calls Event for what is left in the ring, and releases
// everything.
func (l *Latency) Close() error {
	var errs []error
	if l.attachment != nil {
		errs = append(errs, l.attachment.close())
	}
	if l.ring != nil {
		errs = append(errs, l.ring.close())
	}
	for _, m := range l.owned {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
