package meter

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type tally -type given_cause actions ../../bpf/actions.c

// VerdictTallies are the packets of each verdict. The last entry is xdp.UnknownVerdict.
type VerdictTallies [xdp.VerdictSlots]Tally

// Add adds the packets that another CPU or queue counted.
func (v *VerdictTallies) Add(o VerdictTallies) {
	for i := range v {
		v[i].Add(o[i])
	}
}

// Sum returns the packets of all verdicts together.
func (v *VerdictTallies) Sum() Tally { return Sum(v[:]) }

// ActionsOptions define where and how to count verdicts.
type ActionsOptions struct {
	Interface string
	Program   string // see OpenLatency
	Queues    int    // receive queues to count separately, from queue 0 on; 0 = all together

	// Verdict is the verdict of our own program for every packet: Aborted (the zero value), Drop or
	// Pass. Any verdict but Pass stops all packets that come in. It is an error if the interface
	// already has a program, because then that program decides.
	Verdict xdp.Verdict
	Mode    packet.Mode // the mode to attach our own program in

	TraceOnly bool // it is an error if the interface has no program: ours is never attached

	// Filter selects the packets of a traced program to count; nil = all. With it, TraceOnly must
	// be set.
	Filter *filter.Program

	// ReasonMap is the map in which the traced program stores the reason of a drop, by which drops
	// are then counted, too; "" = they are not. See xdp.OpenReasonMap. The error is an
	// xdp.ErrNoReason if no program runs. If another program replaces the traced one, its map of
	// the same name is read.
	ReasonMap string
}

// Actions counts packets per XDP verdict. Its methods may be called concurrently, except Close.
type Actions struct {
	counter
	queues    int
	reasonMap string // as in ActionsOptions
	// reasons translates the numbers in the map of causes; Follow may replace it. nil = reasons are
	// not counted.
	reasons atomic.Pointer[xdp.ReasonMap]
}

// maxCauses is the number of entries for pairs of a verdict and a reason, including one entry for
// each verdict's rest.
const maxCauses = 1024

// OpenActions starts counting. After an error all programs are detached.
func OpenActions(o ActionsOptions) (*Actions, error) {
	a, err := newActions(o)
	if err != nil {
		return nil, err
	}
	if err := a.open(o.Interface, func(ifi xdp.Interface) error { return a.begin(ifi, o) }); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func newActions(o ActionsOptions) (*Actions, error) {
	spec, err := loadActions()
	if err != nil {
		return nil, err
	}
	if err := attach.Set(spec, map[string]any{actionsVarQueues: uint32(o.Queues)}); err != nil {
		return nil, err
	}
	spec.Maps[actionsMapXdpStatsMap].MaxEntries = uint32((o.Queues + 1) * xdp.VerdictSlots)
	a := &Actions{
		counter: counter{spec: spec, tracers: []string{actionsProgXdpcapExit}, refused: ErrNotCountable},
		queues:  o.Queues, reasonMap: o.ReasonMap,
	}
	if o.Filter != nil {
		a.tracers = append(a.tracers, actionsProgXdpcapChoose)
		if err := SetFilter(spec, o.Filter); err != nil {
			return nil, err
		}
	}
	if a.reasonMap != "" {
		spec.Maps[actionsMapCauses].MaxEntries = maxCauses
		a.prepare, a.ready = a.readReasons, a.makeRests
	}
	return a, nil
}

func (a *Actions) begin(ifi xdp.Interface, o ActionsOptions) error {
	own, ok := map[xdp.Verdict]string{
		xdp.Pass:    actionsProgXdpcapPass,
		xdp.Drop:    actionsProgXdpcapDrop,
		xdp.Aborted: actionsProgXdpcapAbort,
	}[o.Verdict]
	hasProgram := len(ifi.Programs) > 0 || o.Program != ""
	switch {
	case o.Program != "" && o.Verdict != xdp.Pass:
		return message.Errorf(ErrProgramDecides, "program %s decides by itself", o.Program)
	case len(ifi.Programs) > 0 && o.Verdict != xdp.Pass:
		return message.Errorf(ErrProgramDecides, "%s already runs XDP program %v, which decides until it is detached",
			ifi.Name, ifi.Programs[0])
	case o.ReasonMap != "" && !hasProgram:
		return message.Errorf(xdp.ErrNoReason, "%s runs no XDP program, and only a program gives reasons", ifi.Name)
	case hasProgram || o.TraceOnly:
		return a.trace(ifi, o.Program)
	case !ok:
		return fmt.Errorf("verdict %v: our own program can only pass, drop or abort", o.Verdict)
	}
	return a.attachXDP(ifi, own, o.Mode, a.total)
}

// total returns how many packets were counted.
func (a *Actions) total() (uint64, error) {
	c, err := a.Read()
	sum := c.Total()
	return sum.Sum().Packets, err
}

// readReasons prepares the next load of a program, which will then read the reasons of the target.
func (a *Actions) readReasons(target xdp.Target) error {
	m, err := xdp.OpenReasonMap(a.reasonMap, target)
	if err != nil {
		return err
	}
	a.targetMaps[actionsMapGivenReasons].Close() // Close accepts a nil map
	a.targetMaps = map[string]*ebpf.Map{actionsMapGivenReasons: m.Map}
	a.reasonMap = cmp.Or(m.Name(), a.reasonMap)
	a.reasons.Store(m)
	m.ReplaceIn(a.spec.Maps[actionsMapGivenReasons])
	return attach.Set(a.spec, map[string]any{actionsVarReadingReasons: true})
}

// makeRests creates an entry for each verdict's rest: the packets whose reasons find the map full.
func (a *Actions) makeRests() error {
	for _, v := range []xdp.Verdict{xdp.Aborted, xdp.Drop} {
		rest := actionsGivenCause{Verdict: uint16(v), IsRest: 1}
		if err := a.maps[actionsMapCauses].Put(rest, make([]Tally, ebpf.MustPossibleCPU())); err != nil {
			return fmt.Errorf("make room for counting reasons: %w", err)
		}
	}
	return nil
}

// ActionCounts are the packets per verdict and, with ActionsOptions.ReasonMap, per reason. The zero
// value means no packets.
type ActionCounts struct {
	// Queues are indexed by queue and then by CPU. The last entry is the sum of all queues that are
	// not counted separately.
	Queues [][]VerdictTallies

	// Reasons are the sums over queues and CPUs. Every packet with the verdict Aborted or Drop is
	// in one of them.
	Reasons map[VerdictReason]Tally
}

// A VerdictReason is a verdict with the reason that the program has given for it.
type VerdictReason struct {
	Verdict xdp.Verdict
	Reason  string // its name or number; "" = without a reason; or OtherReasons
}

// OtherReasons stands for all reasons that found the map of reasons full.
const OtherReasons = "others"

// Queue returns one queue's packets on all CPUs; zero if the queue does not exist.
func (c ActionCounts) Queue(queue int) (sum VerdictTallies) {
	if queue < len(c.Queues) {
		for _, v := range c.Queues[queue] {
			sum.Add(v)
		}
	}
	return sum
}

// CPU returns one CPU's packets of all queues; zero if the CPU does not exist.
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
	slots, err := ReadArray[Tally](a.maps[actionsMapXdpStatsMap])
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
			c.Queues[q][cpu][verdict] = t
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
	var key actionsGivenCause
	var perCPU []Tally
	entries := a.maps[actionsMapCauses].Iterate()
	for entries.Next(&key, &perCPU) {
		sum := Sum(perCPU)
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
