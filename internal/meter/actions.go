package meter

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type tally actions ../../bpf/actions.c

// VerdictTallies are the packets of each verdict. The last entry is xdp.UnknownVerdict.
type VerdictTallies [xdp.VerdictSlots]Tally

// Add adds the packets that another CPU or queue counted.
func (v *VerdictTallies) Add(o VerdictTallies) {
	for i := range v {
		v[i].Add(o[i])
	}
}

// Sum returns the packets of all verdicts together.
func (v *VerdictTallies) Sum() (sum Tally) {
	for _, t := range v {
		sum.Add(t)
	}
	return sum
}

// ActionsOptions say where and how to count verdicts.
type ActionsOptions struct {
	Interface string
	Program   string // see OpenLatency
	Queues    int    // receive queues to count separately, from queue 0 on; 0 = all together

	// Verdict is the verdict of our own program for every packet: Aborted (the zero value), Drop or
	// Pass. Any verdict but Pass stops all packets that come in. It is an error if the interface
	// already has a program, because then that program decides.
	Verdict xdp.Verdict
	Mode    xdp.Mode // the mode to attach our own program in

	TraceOnly bool // it is an error if the interface has no program: ours is never attached
}

// Actions counts packets per XDP verdict. Its methods may be called concurrently, except Close,
// which is called once, after all others.
type Actions struct {
	*attachment
	tallies *ebpf.Map
	queues  int
}

// OpenActions starts counting. After an error nothing is left attached.
func OpenActions(o ActionsOptions) (*Actions, error) {
	defer runtime.KeepAlive(xdp.KernelTypes()) // all programs are loaded with the same
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	ifi, err := xdp.EthernetInterface(o.Interface)
	if err != nil {
		return nil, err
	}
	a := &Actions{queues: o.Queues}
	spec, err := a.spec()
	if err != nil {
		return nil, err
	}
	switch {
	case o.Program != "" && o.Verdict != xdp.Pass:
		err = xdp.Kind(ErrProgramDecides, "program %s decides by itself", o.Program)
	case len(ifi.Programs) > 0 && o.Verdict != xdp.Pass:
		err = xdp.Kind(ErrProgramDecides, "%s already runs XDP program %v, which decides until it is detached",
			ifi.Name, ifi.Programs[0])
	case len(ifi.Programs) > 0 || o.Program != "" || o.TraceOnly:
		err = a.trace(spec, ifi, o.Program)
	default:
		err = a.attach(spec, ifi, o)
	}
	if err != nil {
		return nil, errors.Join(err, a.tallies.Close()) // Close accepts a nil map
	}
	return a, nil
}

func (a *Actions) spec() (*ebpf.CollectionSpec, error) {
	spec, err := loadActions()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[actionsVarQueues].Set(uint32(a.queues)); err != nil {
		return nil, fmt.Errorf("set %s: %w", actionsVarQueues, err)
	}
	spec.Maps[actionsMapXdpStatsMap].MaxEntries = uint32((a.queues + 1) * xdp.VerdictSlots)
	return spec, nil
}

func (a *Actions) attach(spec *ebpf.CollectionSpec, ifi xdp.Interface, o ActionsOptions) error {
	name, ok := map[xdp.Verdict]string{
		xdp.Pass:    actionsProgXdpPassFunc,
		xdp.Drop:    actionsProgXdpDropFunc,
		xdp.Aborted: actionsProgXdpAbortFunc,
	}[o.Verdict]
	if !ok {
		return fmt.Errorf("verdict %v: our own program can only pass, drop or abort", o.Verdict)
	}
	prog, err := a.load(spec, name)
	if err != nil {
		return support.ExplainLoad("load the counting program", err)
	}
	if a.attachment, err = attach(ifi, prog, o.Mode); err != nil {
		prog.Close()
	}
	return err
}

func (a *Actions) trace(spec *ebpf.CollectionSpec, ifi xdp.Interface, selector string) (err error) {
	a.attachment, err = trace(ifi, selector, tracers{
		spec:    spec,
		names:   []string{actionsProgCountExit},
		load:    func(name string) (*ebpf.Program, error) { return a.load(spec, name) },
		refused: ErrNotCountable,
	})
	return err
}

// load loads one program, and creates the map that it counts in.
func (a *Actions) load(spec *ebpf.CollectionSpec, name string) (*ebpf.Program, error) {
	return loadProgram(spec, name, a.named())
}

// named returns the map by its name in actions.c.
func (a *Actions) named() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{actionsMapXdpStatsMap: &a.tallies}
}

// ActionCounts are the packets per verdict, by queue and then by CPU. The last entry holds all
// queues that are not counted separately. nil means no packets.
type ActionCounts [][]VerdictTallies

// Queue returns one queue's packets on all CPUs; none if the queue does not exist.
func (c ActionCounts) Queue(queue int) (sum VerdictTallies) {
	if queue < len(c) {
		for _, v := range c[queue] {
			sum.Add(v)
		}
	}
	return sum
}

// CPU returns one CPU's packets of all queues; none if the CPU does not exist.
func (c ActionCounts) CPU(cpu int) (sum VerdictTallies) {
	for _, q := range c {
		if cpu < len(q) {
			sum.Add(q[cpu])
		}
	}
	return sum
}

// CPUs returns the number of possible CPUs.
func (c ActionCounts) CPUs() int {
	if len(c) == 0 {
		return 0
	}
	return len(c[0])
}

// Total returns the packets of all queues and CPUs.
func (c ActionCounts) Total() (sum VerdictTallies) {
	for q := range c {
		sum.Add(c.Queue(q))
	}
	return sum
}

// Read returns the counters, cumulative since OpenActions.
func (a *Actions) Read() (ActionCounts, error) {
	slots, err := readArray[actionsTally](a.tallies)
	if err != nil {
		return nil, fmt.Errorf("read the counters of %s: %w", a.ifi.Name, err)
	}
	counts := make(ActionCounts, a.queues+1)
	for slot, perCPU := range slots {
		q, verdict := slot/xdp.VerdictSlots, slot%xdp.VerdictSlots
		if counts[q] == nil {
			counts[q] = make([]VerdictTallies, len(perCPU))
		}
		for cpu, t := range perCPU {
			counts[q][cpu][verdict] = Tally{t.Packets, t.Bytes}
		}
	}
	return counts, nil
}

// Close detaches the program and releases the counters.
func (a *Actions) Close() error { return errors.Join(a.attachment.close(), a.tallies.Close()) }
