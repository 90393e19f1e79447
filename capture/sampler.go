package capture

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture/internal/account"
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/wait"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A sampler loads the programs of bpf/sampler.c for a session, and holds the maps that they share.
type sampler struct {
	options  *Options
	roster   *roster
	rings    *ring.Set
	spec     *ebpf.CollectionSpec
	maps     map[string]*ebpf.Map // by their names in bpf/sampler.c
	barrier  wait.Barrier
	flowSeed uint64 // random for each session, the same on all its interfaces
	closes   bool   // there are tracers, which accept no new packets once the map `closed` is set
	stamping kernel.SamplerStamping
	arrival  uint32    // differs between interfaces that come one after the other
	worth    string    // what HostLowprecStamp's stamps are, in words; "" = another Stamp
	polls    link.Link // the program that tells when a NAPI poll ends; nil = none
}

// samplerSpec returns the programs and maps of the compiled bpf/sampler.c. A process reads them
// once, because that takes some 10 ms. Each session changes a copy.
var samplerSpec = sync.OnceValues(kernel.LoadSampler)

// newSampler creates the maps for a session with these sources. It takes over the rings.
func newSampler(o *Options, r *roster, rings *ring.Set) (*sampler, error) {
	slots, hooks := r.arrays()
	if most := int(kernel.SamplerLimitMAX_HOOKS); hooks > most {
		return nil, fmt.Errorf("capture at %d interfaces and programs: must be at most %d", hooks, most)
	}
	spec, err := samplerSpec()
	if err != nil {
		return nil, err
	}
	spec = spec.Copy()
	k := &sampler{
		options:  o,
		roster:   r,
		rings:    rings,
		spec:     spec,
		maps:     make(map[string]*ebpf.Map),
		flowSeed: rand.Uint64(),
	}
	spec.Maps[kernel.SamplerMapAccounts].MaxEntries = uint32(slots)
	spec.Maps[kernel.SamplerMapPassages].MaxEntries = uint32(hooks)
	if o.First == 0 {
		spec.Maps[kernel.SamplerMapFlows].MaxEntries = 1 // it is not used, and would be large
	}
	if r.has(func(s *Source) bool { return s.Hook == StackDrop }) {
		spec.Maps[kernel.SamplerMapScratches].MaxEntries = uint32(slots)
	} else {
		delete(spec.Maps, kernel.SamplerMapScratches) // it is not used, and would be large
	}
	// An interface that comes later may run a program, which is then traced.
	fragments := o.follows() && o.Direction != Out || r.has((*Source).InFragments)
	if err := rings.Prepare(spec, fragments); err != nil {
		return nil, errors.Join(err, rings.Close())
	}
	if err := k.makeMaps(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if k.barrier, err = wait.NewBarrier(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if err := k.chooseStamping(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// makeMaps creates every map except those of constants, because each program has its own constants.
func (k *sampler) makeMaps() error {
	for name, spec := range k.spec.Maps {
		if name == ".rodata" {
			continue
		}
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return support.ExplainLoad("create the map "+name, err)
		}
		k.maps[name] = m
	}
	if err := k.openAccounts(); err != nil {
		return err
	}
	if err := k.rings.Open(k.maps); err != nil {
		return err
	}
	if err := k.maps[kernel.SamplerMapRates].Put(uint32(0), uint32(1)); err != nil {
		return fmt.Errorf("set the rate of sampling: %w", err)
	}
	if k.options.bucketRate() == 0 {
		return nil
	}
	now, err := machine.Monotonic()
	if err != nil {
		return err
	}
	// The bucket starts with tokens for one packet, because a full bucket would double the rate in
	// the first second.
	paid := uint64(now)<<kernel.SamplerLimitTIME_SHIFT - packetCost(k.options.MaxRate)
	if err := k.maps[kernel.SamplerMapBucket].Put(uint32(0), paid); err != nil {
		return fmt.Errorf("fill the token bucket: %w", err)
	}
	return nil
}

// openAccounts writes into each account its CPU and the weight of its packets.
func (k *sampler) openAccounts() error {
	perCPU := make([]kernel.SamplerAccount, ebpf.MustPossibleCPU())
	for cpu := range perCPU {
		perCPU[cpu].Cpu = uint64(cpu)
		perCPU[cpu].Weight = uint64(k.options.Sample)
	}
	slots, _ := k.roster.arrays()
	for i := range slots {
		if err := k.maps[kernel.SamplerMapAccounts].Put(uint32(i), perCPU); err != nil {
			return fmt.Errorf("open the account of slot %d: %w", i, err)
		}
	}
	return nil
}

// packetCost is what a packet costs in the token bucket at a rate in packets per second: the time
// between two packets, in the program's unit.
func packetCost(rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	return uint64(time.Second) << kernel.SamplerLimitTIME_SHIFT / rate
}

// loadHooks loads the programs of all hooks.
func (k *sampler) loadHooks(hooks []hook) error {
	first := 0
	for i, h := range hooks {
		if err := h.load(k, uint32(first), uint32(i)); err != nil {
			return err
		}
		first += len(h.sources())
	}
	return nil
}

// constants are values of `volatile const` variables of bpf/sampler.c, by their names.
type constants map[string]any

// companions returns the companions at a source.
func (k *sampler) companions(src *Source) (c Companions, err error) {
	if k.options.Companions != nil {
		c, err = k.options.Companions(*src)
	}
	return c, err
}

// A loading says which program of bpf/sampler.c to load, and how.
type loading struct {
	name   string
	first  uint32 // index of its source, or of the first of its hook
	index  uint32 // of its hook
	filter attach.Filter
	with   Companions
	own    constants               // in addition to those of the options and of the filter
	adjust func(*ebpf.ProgramSpec) // changes the specification; nil = no change

	reasons *xdp.ReasonMap // from which it reads why packets are dropped; nil = it does not
}

// load loads one program.
func (k *sampler) load(l loading) (*ebpf.Program, error) {
	name := l.name
	spec := k.spec.Copy()
	values := k.constants()
	maps.Copy(values, l.filter.Constants())
	values[kernel.SamplerVarSource], values[kernel.SamplerVarHook] = l.first, l.index
	values[kernel.SamplerVarAccompanied] = !l.with.isNone()
	values[kernel.SamplerVarReadingReasons] = l.reasons != nil
	maps.Copy(values, l.own)
	if err := attach.Set(spec, values); err != nil {
		return nil, err
	}
	if err := l.filter.Put(spec.Programs[name]); err != nil {
		return nil, err
	}
	if err := l.with.join(spec.Programs[name]); err != nil {
		return nil, err
	}
	types := xdp.KernelTypes()
	if err := resolveRedirectInfo(spec, name, types); err != nil {
		return nil, err
	}
	if l.adjust != nil {
		l.adjust(spec.Programs[name])
	}
	if err := xdp.Alone(spec.Programs[name]); err != nil {
		return nil, err
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
	opts := ebpf.CollectionOptions{MapReplacements: k.maps, Cache: types}
	if l.reasons != nil {
		l.reasons.ReplaceIn(spec.Maps[kernel.SamplerMapGivenReasons])
		opts.MapReplacements = maps.Clone(k.maps)
		opts.MapReplacements[kernel.SamplerMapGivenReasons] = l.reasons.Map
	}
	if spec.Programs[name].Type == ebpf.XDP {
		var err error
		if opts.Programs.KernelTypes, err = withoutModules(types); err != nil {
			return nil, err
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, opts)
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

// withoutModules returns the types of the kernel without its modules, because XDP programs read no
// type of a module. It is empty if the kernel does not describe its types; the verifier then
// removes the code that would read them.
func withoutModules(kernel *btf.Cache) (*btf.Spec, error) {
	types, err := kernel.Kernel()
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return types, err
	}
	none, err := btf.NewBuilder(nil, nil)
	if err != nil {
		return nil, err
	}
	return none.Spec()
}

// constants returns the constants that all programs share.
func (k *sampler) constants() constants {
	o := k.options
	return constants{
		kernel.SamplerVarSnaplen:          uint32(o.SnapLen),
		kernel.SamplerVarCuttingPayload:   o.HeadersOnly,
		kernel.SamplerVarPayloadKept:      uint32(o.Payload),
		kernel.SamplerVarStamping:         uint32(k.stamping),
		kernel.SamplerVarOneIn:            o.oneIn(),
		kernel.SamplerVarDrawingByVerdict: o.SampleVerdicts != nil,
		kernel.SamplerVarOneInOf:          o.oneInOf(),
		kernel.SamplerVarChoosingFlows:    o.SampleFlows > 1 || o.First > 0,
		kernel.SamplerVarKeepFlowsBelow:   keepBelow(o.SampleFlows),
		kernel.SamplerVarFlowSeed:         k.flowSeed,
		kernel.SamplerVarArrival:          k.arrival,
		kernel.SamplerVarFirstPackets:     o.First,
		kernel.SamplerVarPacketCost:       packetCost(o.bucketRate()),
		kernel.SamplerVarVerdicts:         verdictList(o.Verdicts),
		kernel.SamplerVarVerdictCount:     uint32(len(o.Verdicts)),
		kernel.SamplerVarSlowerThan:       uint32(o.SlowerThan),
	}
}

// keepBelow is the bound that a uniformly distributed 32-bit number does not exceed with a
// probability of 1/n.
func keepBelow(n uint32) uint32 { return uint32(math.MaxUint32 / uint64(n)) }

// verdictList returns the verdicts, at most maxVerdicts, as the program expects them.
func verdictList(verdicts []Verdict) (list [maxVerdicts]uint32) {
	for i, v := range verdicts {
		list[i] = uint32(v)
	}
	return list
}

// accounts reads what the programs counted for each source, summed over the CPUs.
func (k *sampler) accounts() ([]account.Program, error) { return k.roster.accounts(k.counted) }

// counted reads what the programs counted in a slot, summed over the CPUs.
func (k *sampler) counted(slot int) (sum account.Program, err error) {
	perCPU, err := k.perCPU(slot)
	for _, a := range perCPU {
		sum.Seen += a.Seen
		sum.FilteredOut += a.FilteredOut
		sum.NotSampled += a.NotSampled
		sum.Lost += a.Lost
		sum.Missed += a.Missed
		sum.Sent += a.Sampled
		sum.Joined += a.Joined
	}
	return sum, err
}

// perCPU reads what the programs counted in a slot on each CPU. The numbers never decrease.
func (k *sampler) perCPU(slot int) (perCPU []kernel.SamplerAccount, err error) {
	if err := k.maps[kernel.SamplerMapAccounts].Lookup(uint32(slot), &perCPU); err != nil {
		return nil, fmt.Errorf("read the programs' counters: %w", err)
	}
	return perCPU, nil
}

// letOut stops the tracers from accepting new packets, and returns when none is between the entry
// and the exit of a traced program. This must come before tracers are detached: the kernel then
// skips fexit for packets that are in the program, so there would be more entries than exits.
func (k *sampler) letOut() error {
	if !k.closes {
		return nil
	}
	if err := k.maps[kernel.SamplerMapClosed].Put(uint32(0), uint32(1)); err != nil {
		return fmt.Errorf("let no more packets into the traced programs: %w", err)
	}
	return k.barrier.Wait()
}

// close releases the maps and the rings. The hooks close the programs.
func (k *sampler) close() error {
	errs := []error{k.barrier.Close(), k.rings.Close()}
	if k.polls != nil {
		errs = append(errs, k.polls.Close())
	}
	for _, m := range k.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
