package meter

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type tally -type class -type limit -type extra -type head_limit -type flow -type flow_entry -type flow_bucket -type slots protocols ../../bpf/protocols.c

// A Variant is a way to count packets per protocol. All give the same numbers.
type Variant uint32

const (
	// PerCPU is a per-CPU array with an entry for each protocol. It is the fastest by a little.
	PerCPU = Variant(protocolsVariantPERCPU)
	// Ultra is one struct per CPU with a slot for everything that is counted.
	Ultra = Variant(protocolsVariantULTRA)
	// Naive is one hash table for all CPUs, with atomic additions.
	Naive = Variant(protocolsVariantNAIVE)
)

// Variants has all variants, the slowest first.
var Variants = []Variant{Naive, PerCPU, Ultra}

var variantNames = [...]string{PerCPU: "percpu", Ultra: "ultra", Naive: "naive"}

func (v Variant) String() string { return variantNames[v] }

// ParseVariant reads the name of a variant.
func ParseVariant(name string) (Variant, error) {
	if i := slices.Index(variantNames[:], name); i >= 0 {
		return Variant(i), nil
	}
	return 0, fmt.Errorf("variant %q: must be naive, percpu or ultra", name)
}

// ProtocolsOptions define where to count, and which packets.
type ProtocolsOptions struct {
	Interface string
	Program   string // see OpenLatency
	Variant   Variant
	Sizes     bool
	Flows     bool
	Mode      packet.Mode // the mode to attach our own program in, if the interface has none

	// Sent counts the packets that the interface sends, at its egress, as the stack hands them
	// over: packets that the network card segments count as one, and the bytes of a VLAN tag that
	// the card inserts count. Program and Mode are about XDP, and are ignored.
	Sent bool

	// AtIngress counts the packets that the interface receives at tc ingress, after XDP, where GRO
	// has joined packets. Program and Mode are ignored.
	AtIngress bool

	// Verdicts selects the packets to count by the verdict of a traced program; nil = all.
	// xdp.UnknownVerdict stands for all numbers that are not among the kernel's verdicts.
	Verdicts []xdp.Verdict

	// Filter selects the packets to count, before Verdicts does; nil = all. Package filter compiles
	// it, for packets that are received or, with Sent, sent.
	Filter     *filter.Program
	FilterText string // the filter in words, for String

	// Sizes of tables, for tests.
	flowBuckets int    // of each CPU, a power of two; 0 = the function flowBuckets
	etherTypes  uint32 // 0 = as in protocols.c
}

// Protocols counts packets per protocol. Its methods may be called concurrently, except Close.
type Protocols struct {
	counter
	options ProtocolsOptions
	flows   FlowTable

	mu   sync.Mutex // guards the field below, and the tables while entries are evicted
	rare rareClasses
}

// OpenProtocols starts counting. After an error all programs are detached.
func OpenProtocols(o ProtocolsOptions) (*Protocols, error) {
	p, err := newProtocols(o)
	if err != nil {
		return nil, err
	}
	if err := p.open(o.Interface, p.begin); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newProtocols(o ProtocolsOptions) (*Protocols, error) {
	spec, err := protocolsSpec(o)
	if err != nil {
		return nil, err
	}
	p := &Protocols{counter: counter{spec: spec, tracers: o.tracers(), refused: ErrNotCountable}, options: o}
	p.ready = p.prepareMaps
	p.rare = newRareClasses(int(spec.Maps[protocolsMapEthertypes].MaxEntries / 2))
	return p, nil
}

func (p *Protocols) begin(ifi xdp.Interface) error {
	o := &p.options
	switch traced := !o.Sent && !o.AtIngress && (len(ifi.Programs) > 0 || o.Program != ""); {
	case traced:
		return p.trace(ifi, o.Program)
	case len(o.Verdicts) > 0:
		return message.Errorf(ErrNoVerdict, "%s runs no XDP program, so its packets have no verdict", ifi.Name)
	case o.Sent:
		return p.attachTC(ifi, o.program(), tc.Egress)
	case o.AtIngress:
		return p.attachTC(ifi, o.program(), tc.Ingress)
	}
	seen := p.total
	if o.Filter != nil {
		seen = nil // packets that do not match are not counted
	}
	err := p.attachXDP(ifi, o.program(), o.Mode, seen)
	if err != nil && o.Mode == packet.Auto && support.AtTC(ifi).Answer != support.No {
		return message.Errorf(xdp.ErrNotAtXDP, "%w", err)
	}
	return err
}

// total returns how many packets were counted.
func (p *Protocols) total() (n uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	classes, err := p.classes()
	if err != nil {
		return 0, err
	}
	p.rare.addTo(classes)
	for _, perCPU := range classes {
		n += Sum(perCPU).Packets
	}
	return n, nil
}

// program returns the name of our own program that counts.
func (o *ProtocolsOptions) program() string {
	if o.Sent || o.AtIngress {
		return protocolsProgXdpcapTc
	}
	return protocolsProgXdpcapCount
}

// tracers returns the names of our programs that trace another program. If flows or verdicts are
// counted, packets are parsed at the program's entry and counted at its exit, where the verdict is
// known. The exit's tracer is attached first, as in newLatency.
func (o *ProtocolsOptions) tracers() []string {
	if o.Flows || len(o.Verdicts) > 0 {
		return []string{protocolsProgXdpcapExit, protocolsProgXdpcapFilter}
	}
	return []string{protocolsProgXdpcapEntry}
}

func protocolsSpec(o ProtocolsOptions) (*ebpf.CollectionSpec, error) {
	spec, err := loadProtocols()
	if err != nil {
		return nil, err
	}
	var extras protocolsExtra
	if o.Sizes {
		extras |= protocolsExtraWITH_SIZES
	}
	if o.Flows {
		extras |= protocolsExtraWITH_FLOWS
		if err := SizeFlows(spec, o.flowBuckets); err != nil {
			return nil, err
		}
	}
	constants := map[string]any{protocolsVarChosen: uint32(o.Variant)}
	if len(o.Verdicts) > 0 {
		var bits uint32
		for _, v := range o.Verdicts {
			bits |= 1 << v.Slot()
		}
		constants[protocolsVarVerdicts] = bits
	}
	if o.Filter != nil {
		if err := SetFilter(spec, o.Filter); err != nil {
			return nil, err
		}
	}
	if o.etherTypes != 0 {
		spec.Maps[protocolsMapEthertypes].MaxEntries = o.etherTypes
		spec.Maps[protocolsMapNaiveTallies].MaxEntries = o.etherTypes
	}
	constants[protocolsVarExtras] = uint32(extras)
	return spec, attach.Set(spec, constants)
}

// prepareMaps maps the tables of flows into memory if flows are counted. It creates the entry
// noRoom while Naive's table still has room for it.
func (p *Protocols) prepareMaps() (err error) {
	if m := p.maps[protocolsMapFlows]; m.MaxEntries() > 1 {
		if p.flows, err = OpenFlowTable(m); err != nil {
			return err
		}
	}
	if err := p.maps[protocolsMapNaiveTallies].Put(noRoom, Tally{}); err != nil {
		return fmt.Errorf("prepare map %s: %w", protocolsMapNaiveTallies, err)
	}
	return nil
}

// Read returns the counters, cumulative since OpenProtocols.
func (p *Protocols) Read() (ProtocolCounts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.read(p.options.Sizes)
	if err != nil {
		return c, fmt.Errorf("read the counters of %s: %w", p.Interface().Name, err)
	}
	p.rare.addTo(c.Classes)
	p.rare.fold(c.Classes)
	return c, nil
}

// Follow follows the interface's program: see [Actions.Follow]. It also evicts EtherTypes without
// recent packets from their table.
func (p *Protocols) Follow() (notice string, err error) {
	p.mu.Lock()
	err = p.evictQuiet(time.Now())
	p.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("make room for EtherTypes on %s: %w", p.Interface().Name, err)
	}
	return p.attachment.Follow()
}

// Traced returns the program that is traced now; nil if a program of ours counts.
func (p *Protocols) Traced() *xdp.Program {
	if p.isOwn() {
		return nil
	}
	traced := p.Program()
	return &traced
}

// String describes where and how it counts: "eth0, XDP native, ultra", or "eth0, tracing lb (id 7),
// ultra, drop, tcp port 443".
func (p *Protocols) String() string {
	text := fmt.Sprintf("%v, %v", p.attachment, p.options.Variant)
	for _, v := range p.options.Verdicts {
		text += ", " + v.SlotName()
	}
	if p.options.FilterText != "" {
		text += ", " + p.options.FilterText
	}
	return text
}

// Close detaches the program and releases the counters.
func (p *Protocols) Close() error { return errors.Join(p.counter.Close(), p.flows.Close()) }
