package meter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
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

// ProtocolsOptions say where and what to count.
type ProtocolsOptions struct {
	Interface string
	Program   string // see OpenLatency
	Variant   Variant
	Sizes     bool
	Flows     bool
	Mode      xdp.Mode // the mode to attach our own program in, if the interface has none

	// Sent counts what the interface sends, at its egress, as the stack hands it over: packets that
	// the network card segments count as one, and the bytes of a VLAN tag that the card inserts
	// count. Program and Mode are about XDP, and are ignored.
	Sent bool

	// Verdicts selects the packets to count by their verdict, if a program is traced; nil = all. A
	// number that is not one of the kernel's verdicts stands for all such numbers.
	Verdicts []xdp.Verdict

	// Filter selects the packets to count, before Verdicts does; nil = all. Package filter compiles
	// it, for packets that are received or, with Sent, sent.
	Filter     []bpf.RawInstruction
	FilterText string // the filter in words, for String

	// Sizes of tables, for tests.
	flowBuckets int    // of each CPU, a power of two; 0 = the function flowBuckets
	etherTypes  uint32 // 0 = as in protocols.c
}

// Protocols counts packets per protocol. Its methods may be called concurrently, except Close,
// which is called once, after all others.
type Protocols struct {
	*attachment
	protocolMaps
	sizes    bool
	verdicts []xdp.Verdict
	filter   string

	mu   sync.Mutex // guards the fields below, and the tables from a look until the removal of entries
	rare rareClasses
}

// OpenProtocols starts counting. After an error nothing is left attached.
func OpenProtocols(o ProtocolsOptions) (*Protocols, error) {
	defer runtime.KeepAlive(xdp.KernelTypes()) // all programs are loaded with the same
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	ifi, err := xdp.EthernetInterface(o.Interface)
	if err != nil {
		return nil, err
	}
	spec, err := protocolsSpec(o)
	if err != nil {
		return nil, err
	}
	p := newProtocols(o, spec)
	if p.attachment, err = p.attach(ifi, spec, o); err != nil {
		return nil, errors.Join(err, p.protocolMaps.close())
	}
	return p, nil
}

func newProtocols(o ProtocolsOptions, spec *ebpf.CollectionSpec) *Protocols {
	p := &Protocols{sizes: o.Sizes, verdicts: o.Verdicts, filter: o.FilterText}
	p.variant = o.Variant
	p.rare.aging.Keep = int(spec.Maps[protocolsMapEthertypes].MaxEntries / 2)
	return p
}

func (p *Protocols) attach(ifi xdp.Interface, spec *ebpf.CollectionSpec, o ProtocolsOptions) (*attachment, error) {
	traced := !o.Sent && (len(ifi.Programs) > 0 || o.Program != "")
	if !traced && len(o.Verdicts) > 0 {
		return nil, errkind.Errorf(ErrNoVerdict, "%s runs no XDP program, so its packets have no verdict", ifi.Name)
	}
	if traced {
		return trace(ifi, o.Program, tracers{
			spec:    spec,
			names:   o.tracers(),
			load:    func(name string) (*ebpf.Program, error) { return p.load(spec, name) },
			refused: ErrNotCountable,
		})
	}
	prog, err := p.load(spec, o.program())
	if err != nil {
		return nil, support.ExplainLoad("load the counting program", err)
	}
	if o.Sent {
		return attachEgress(ifi, prog)
	}
	return attachXDP(ifi, prog, o.Mode)
}

// program is the name of our own program that counts.
func (o *ProtocolsOptions) program() string {
	if o.Sent {
		return protocolsProgCountSent
	}
	return protocolsProgCountXdp
}

// tracers are the names of our programs that trace another program. If the verdict decides what
// counts, packets are parsed at the entry and counted at the exit. The exit's comes first, as in
// probeNames.
func (o *ProtocolsOptions) tracers() []string {
	if o.Flows || len(o.Verdicts) > 0 {
		return []string{protocolsProgCountExit, protocolsProgNoteEntry}
	}
	return []string{protocolsProgCountEntry}
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
	if len(o.Verdicts) > 0 {
		var bits uint32
		for _, v := range o.Verdicts {
			bits |= 1 << v.Slot()
		}
		if err := spec.Variables[protocolsVarVerdicts].Set(bits); err != nil {
			return nil, fmt.Errorf("set %s: %w", protocolsVarVerdicts, err)
		}
	}
	if o.Filter != nil {
		if err := setFilter(spec, o.Filter); err != nil {
			return nil, err
		}
	}
	if o.etherTypes != 0 {
		spec.Maps[protocolsMapEthertypes].MaxEntries = o.etherTypes
		spec.Maps[protocolsMapNaiveTallies].MaxEntries = o.etherTypes
	}
	for name, value := range map[string]uint32{protocolsVarExtras: uint32(extras), protocolsVarChosen: uint32(o.Variant)} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	return spec, nil
}

// protocolMaps are the maps of protocols.c.
type protocolMaps struct {
	variant                                                       Variant
	naive, percpu, ultra, ethertypes, size, flow, passages, heads *ebpf.Map
	flows                                                         FlowTable
}

// named are the maps by their names in protocols.c.
func (m *protocolMaps) named() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		protocolsMapNaiveTallies:  &m.naive,
		protocolsMapPercpuTallies: &m.percpu,
		protocolsMapUltraTallies:  &m.ultra,
		protocolsMapEthertypes:    &m.ethertypes,
		protocolsMapSizes:         &m.size,
		protocolsMapFlows:         &m.flow,
		protocolsMapPassages:      &m.passages,
		protocolsMapHeads:         &m.heads,
	}
}

// load loads a program, and creates the maps that do not exist yet.
func (m *protocolMaps) load(spec *ebpf.CollectionSpec, name string) (*ebpf.Program, error) {
	prog, err := loadProgram(spec, name, m.named())
	if err != nil {
		return nil, err
	}
	if err := m.prepare(); err != nil {
		prog.Close()
		return nil, err
	}
	return prog, nil
}

// prepare maps the tables of flows into memory if they are asked for, and creates the entry for
// classes that find the table full. That entry is created first, so that there is room for it.
func (m *protocolMaps) prepare() error {
	if err := m.mapFlows(); err != nil {
		return err
	}
	if err := m.naive.Put(uint32(protocolsClassNO_ROOM), protocolsTally{}); err != nil {
		return fmt.Errorf("prepare map %s: %w", protocolsMapNaiveTallies, err)
	}
	return nil
}

func (m *protocolMaps) mapFlows() (err error) {
	if m.flows.mem == nil && m.flow.MaxEntries() > 1 {
		m.flows, err = OpenFlowTable(m.flow)
	}
	return err
}

func (m *protocolMaps) close() error {
	errs := []error{m.flows.Close()}
	for _, one := range []*ebpf.Map{m.naive, m.percpu, m.ultra, m.ethertypes, m.size, m.flow, m.passages, m.heads} {
		errs = append(errs, one.Close()) // Close accepts a nil map
	}
	return errors.Join(errs...)
}

// Read returns the counters, cumulative since OpenProtocols.
func (p *Protocols) Read() (ProtocolCounts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.read(p.sizes)
	if err != nil {
		return c, fmt.Errorf("read the counters of %s: %w", p.Interface().Name, err)
	}
	p.rare.addTo(c.Classes)
	p.rare.fold(c.Classes)
	return c, nil
}

// Follow does what every meter's Follow does. It also makes room in the table of EtherTypes.
func (p *Protocols) Follow() (notice string, err error) {
	p.mu.Lock()
	err = p.rare.forget(&p.protocolMaps, time.Now())
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

// String tells where and how it counts: "eth0, XDP native, ultra", or "eth0, tracing lb (id 7),
// ultra, drop, tcp port 443".
func (p *Protocols) String() string {
	text := fmt.Sprintf("%v, %v", p.attachment, p.variant)
	for _, v := range p.verdicts {
		text += ", " + v.SlotName()
	}
	if p.filter != "" {
		text += ", " + p.filter
	}
	return text
}

// Close detaches the program and releases the counters.
func (p *Protocols) Close() error { return errors.Join(p.attachment.close(), p.protocolMaps.close()) }
