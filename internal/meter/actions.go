package meter

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type tally -type cause actions ../../bpf/actions.c

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

	// ReasonMap also counts what the traced program drops by the reason that it gives: "" = not.
	// See xdp.OpenReasonMap. The error is an xdp.ErrNoReason if no program runs. If another program
	// replaces the traced one, its map of the same name is read.
	ReasonMap string
}

// Actions counts packets per XDP verdict. Its methods may be called concurrently, except Close,
// which is called once, after all others.
type Actions struct {
	*attachment
	tallies *ebpf.Map
	queues  int

	reasonMap string // as in ActionsOptions
	causes    *ebpf.Map
	given     *ebpf.Map // the map of reasons; one of ours if none are read
	// reasons has the names of what is in causes, which Follow may replace; nil = none are read.
	reasons atomic.Pointer[xdp.ReasonMap]
}

// maxCauses is how many pairs of a verdict and a reason are counted separately, the rests included.
const maxCauses = 1024

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
	a := &Actions{queues: o.Queues, reasonMap: o.ReasonMap}
	spec, err := a.spec()
	if err != nil {
		return nil, err
	}
	switch {
	case o.Program != "" && o.Verdict != xdp.Pass:
		err = errkind.Errorf(ErrProgramDecides, "program %s decides by itself", o.Program)
	case len(ifi.Programs) > 0 && o.Verdict != xdp.Pass:
		err = errkind.Errorf(ErrProgramDecides, "%s already runs XDP program %v, which decides until it is detached",
			ifi.Name, ifi.Programs[0])
	case o.ReasonMap != "" && len(ifi.Programs) == 0 && o.Program == "":
		err = errkind.Errorf(xdp.ErrNoReason, "%s runs no XDP program, and only a program gives reasons", ifi.Name)
	case len(ifi.Programs) > 0 || o.Program != "" || o.TraceOnly:
		err = a.trace(spec, ifi, o.Program)
	default:
		err = a.attach(spec, ifi, o)
	}
	if err != nil {
		return nil, errors.Join(err, a.closeMaps())
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
	if a.reasonMap != "" {
		spec.Maps[actionsMapCauses].MaxEntries = maxCauses
	}
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
	a.attachment, err = attachXDP(ifi, prog, o.Mode)
	return err
}

func (a *Actions) trace(spec *ebpf.CollectionSpec, ifi xdp.Interface, selector string) (err error) {
	t := tracers{
		spec:    spec,
		names:   []string{actionsProgCountExit},
		load:    func(name string) (*ebpf.Program, error) { return a.load(spec, name) },
		refused: ErrNotCountable,
	}
	if a.reasonMap != "" {
		t.prepare = func(target xdp.Target) error { return a.readReasons(spec, target) }
	}
	a.attachment, err = trace(ifi, selector, t)
	return err
}

// readReasons lets the next program that is loaded read the reasons of a target.
func (a *Actions) readReasons(spec *ebpf.CollectionSpec, target xdp.Target) error {
	m, err := xdp.OpenReasonMap(a.reasonMap, target)
	if err != nil {
		return err
	}
	a.given.Close() // Close accepts a nil map
	a.given, a.reasonMap = m.Map, cmp.Or(m.Name(), a.reasonMap)
	a.reasons.Store(m)
	m.ReplaceIn(spec.Maps[actionsMapGivenReasons])
	return spec.Variables[actionsVarReadingReasons].Set(true)
}

// load loads one program, and creates the maps that it counts in.
func (a *Actions) load(spec *ebpf.CollectionSpec, name string) (*ebpf.Program, error) {
	prog, err := loadProgram(spec, name, a.named())
	if err != nil || a.reasonMap == "" {
		return prog, err
	}
	for _, v := range dropping {
		rest := actionsCause{Verdict: uint16(v), IsRest: 1}
		err := a.causes.Update(rest, make([]actionsTally, ebpf.MustPossibleCPU()), ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			prog.Close()
			return nil, fmt.Errorf("make room for counting reasons: %w", err)
		}
	}
	return prog, nil
}

// dropping are the verdicts for which a program may give a reason.
var dropping = []xdp.Verdict{xdp.Aborted, xdp.Drop}

// named returns the maps by their names in actions.c.
func (a *Actions) named() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{actionsMapXdpStatsMap: &a.tallies, actionsMapCauses: &a.causes, actionsMapGivenReasons: &a.given}
}

// ActionCounts are the packets per verdict and, with ActionsOptions.ReasonMap, per reason. The zero
// value means no packets.
type ActionCounts struct {
	// Queues are by queue and then by CPU. The last entry holds all queues that are not counted
	// separately.
	Queues [][]VerdictTallies

	// Reasons are of all queues and CPUs. They have every packet with the verdict Aborted or Drop.
	Reasons map[VerdictReason]Tally
}

// A VerdictReason is a verdict with the reason that the program has given for it.
type VerdictReason struct {
	Verdict xdp.Verdict
	Reason  string // its name or number; "" = none was given; OtherReasons
}

// OtherReasons has the packets of all reasons for which there was no room.
const OtherReasons = "others"

// Queue returns one queue's packets on all CPUs; none if the queue does not exist.
func (c ActionCounts) Queue(queue int) (sum VerdictTallies) {
	if queue < len(c.Queues) {
		for _, v := range c.Queues[queue] {
			sum.Add(v)
		}
	}
	return sum
}

// CPU returns one CPU's packets of all queues; none if the CPU does not exist.
func (c ActionCounts) CPU(cpu int) (sum VerdictTallies) {
	for _, q := range c.Queues {
		if cpu < len(q) {
			sum.Add(q[cpu])
		}
	}
	return sum
}

// CPUs returns the number of possible CPUs.
func (c ActionCounts) CPUs() int {
	if len(c.Queues) == 0 {
		return 0
	}
	return len(c.Queues[0])
}

// Total returns the packets of all queues and CPUs.
func (c ActionCounts) Total() (sum VerdictTallies) {
	for q := range c.Queues {
		sum.Add(c.Queue(q))
	}
	return sum
}

// Read returns the counters, cumulative since OpenActions.
func (a *Actions) Read() (c ActionCounts, err error) {
	if c.Reasons, err = a.readCauses(); err != nil {
		return c, fmt.Errorf("read the reasons counted for %s: %w", a.ifi.Name, err)
	}
	slots, err := readArray[actionsTally](a.tallies)
	if err != nil {
		return c, fmt.Errorf("read the counters of %s: %w", a.ifi.Name, err)
	}
	c.Queues = make([][]VerdictTallies, a.queues+1)
	for slot, perCPU := range slots {
		q, verdict := slot/xdp.VerdictSlots, slot%xdp.VerdictSlots
		if c.Queues[q] == nil {
			c.Queues[q] = make([]VerdictTallies, len(perCPU))
		}
		for cpu, t := range perCPU {
			c.Queues[q][cpu][verdict] = Tally{t.Packets, t.Bytes}
		}
	}
	return c, nil
}

// readCauses returns the packets by reason; nil = no reasons are read.
func (a *Actions) readCauses() (map[VerdictReason]Tally, error) {
	names := a.reasons.Load()
	if names == nil {
		return nil, nil
	}
	counted := make(map[VerdictReason]Tally)
	var key actionsCause
	var perCPU []actionsTally
	entries := a.causes.Iterate()
	for entries.Next(&key, &perCPU) {
		var sum Tally
		for _, t := range perCPU {
			sum.Add(Tally{t.Packets, t.Bytes})
		}
		if sum.Packets == 0 {
			continue
		}
		r := VerdictReason{Verdict: xdp.Verdict(key.Verdict)}
		switch {
		case key.IsRest != 0:
			r.Reason = OtherReasons
		case key.Reason != 0:
			r.Reason = names.Reason(key.Reason)
		}
		sum.Add(counted[r])
		counted[r] = sum
	}
	return counted, entries.Err()
}

// Close detaches the program and releases the counters.
func (a *Actions) Close() error { return errors.Join(a.attachment.close(), a.closeMaps()) }

// closeMaps accepts maps that are nil.
func (a *Actions) closeMaps() error {
	return errors.Join(a.tallies.Close(), a.causes.Close(), a.given.Close())
}
