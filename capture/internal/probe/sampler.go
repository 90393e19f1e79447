package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
)

// A Sampler loads the programs of bpf/sampler.c for a session, and holds the maps that they share.
type Sampler struct {
	Options    *Options
	Rings      *ring.Set
	spec       *ebpf.CollectionSpec
	Maps       map[string]*ebpf.Map // by their names in bpf/sampler.c
	barrier    barrier
	flowSeed   uint64                 // random for each session, the same for all its interfaces
	hasTracers bool                   // a program is traced: see DrainTracers
	Stamping   kernel.SamplerStamping // how seldom the programs read the clock
	Arrival    uint32                 // the last one given: see packet.Source
	Stamps     string                 // the accuracy of HostLowprecStamp's stamps, in words; "" = another Stamp
	polls      link.Link              // the program that detects the end of a NAPI poll; nil = none
}

// samplerSpec returns the programs and maps of the compiled bpf/sampler.c. A process decodes them
// once, because that takes some 10 ms. Each session changes a copy.
var samplerSpec = sync.OnceValues(kernel.LoadSampler)

// New creates the maps for the sources of a roster, which then reads their counts from them. It
// takes over the rings.
func New(o *Options, roster *Roster, rings *ring.Set) (*Sampler, error) {
	slots, hooks := roster.Arrays()
	if most := int(kernel.SamplerLimitMAX_HOOKS); hooks > most {
		return nil, fmt.Errorf("capture at %d interfaces and programs: must be at most %d", hooks, most)
	}
	spec, err := samplerSpec()
	if err != nil {
		return nil, err
	}
	spec = spec.Copy()
	k := &Sampler{
		Options:  o,
		Rings:    rings,
		spec:     spec,
		Maps:     make(map[string]*ebpf.Map),
		flowSeed: rand.Uint64(),
	}
	spec.Maps[kernel.SamplerMapAccounts].MaxEntries = uint32(slots)
	spec.Maps[kernel.SamplerMapPassages].MaxEntries = uint32(hooks)
	spec.Maps[kernel.SamplerMapGates].MaxEntries = uint32(hooks)
	if o.First == 0 {
		spec.Maps[kernel.SamplerMapFlows].MaxEntries = 1 // it is not used, and would be large
	}
	if !o.Fragments {
		spec.Maps[kernel.SamplerMapDatagrams].MaxEntries = 1 // the same
	}
	o.fitImages(spec.Maps[kernel.SamplerMapImages])
	// An interface that comes later may run a program, which is then traced.
	mayTraceLater := o.SourcesChange && o.Direction != packet.Out
	fragments := mayTraceLater || roster.Has((*packet.Source).InFragments)
	if err := rings.Prepare(spec, fragments); err != nil {
		return nil, errors.Join(err, rings.Close())
	}
	if err := k.makeMaps(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	if k.barrier, err = newBarrier(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	if err := k.ChooseStamping(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	roster.Programs = k
	return k, nil
}

// makeMaps creates the maps that the programs share: all but those of constants and of scratch
// memory.
func (k *Sampler) makeMaps() error {
	for name, spec := range k.spec.Maps {
		if name == ".rodata" || name == kernel.SamplerMapScratches {
			continue
		}
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return support.ExplainLoad("create the map "+name, err)
		}
		k.Maps[name] = m
	}
	if err := k.openAccounts(); err != nil {
		return err
	}
	if err := k.Rings.Open(k.Maps); err != nil {
		return err
	}
	if err := k.Maps[kernel.SamplerMapRates].Put(uint32(0), uint32(1)); err != nil {
		return fmt.Errorf("set the rate of sampling: %w", err)
	}
	if k.Options.bucketRate() == 0 {
		return nil
	}
	now, err := machine.Monotonic()
	if err != nil {
		return err
	}
	// The bucket starts with tokens for one packet, because a full bucket would double the rate in
	// the first second.
	paid := uint64(now)<<kernel.SamplerLimitTIME_SHIFT - packetCost(k.Options.MaxRate)
	if err := k.Maps[kernel.SamplerMapBucket].Put(uint32(0), paid); err != nil {
		return fmt.Errorf("fill the token bucket: %w", err)
	}
	return nil
}

// openAccounts writes into each account its CPU and the weight of its packets.
func (k *Sampler) openAccounts() error {
	perCPU := make([]kernel.SamplerAccount, ebpf.MustPossibleCPU())
	for cpu := range perCPU {
		perCPU[cpu].Cpu = uint64(cpu)
		perCPU[cpu].Weight = uint64(k.Options.Sample)
	}
	for i := range k.spec.Maps[kernel.SamplerMapAccounts].MaxEntries {
		if err := k.Maps[kernel.SamplerMapAccounts].Put(i, perCPU); err != nil {
			return fmt.Errorf("open the account of slot %d: %w", i, err)
		}
	}
	return nil
}

// packetCost is the cost of a packet in the token bucket at a rate in packets per second: the time
// between two packets, in the program's unit.
func packetCost(rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	return uint64(time.Second) << kernel.SamplerLimitTIME_SHIFT / rate
}

// LoadAll loads the programs of all hooks.
func (k *Sampler) LoadAll(hooks []Hook) error {
	first := 0
	for i, h := range hooks {
		if err := h.Load(k, uint32(first), uint32(i)); err != nil {
			return err
		}
		first += len(h.Sources())
	}
	return nil
}

// Counted reads the programs' counts of a slot, summed over the CPUs.
func (k *Sampler) Counted(slot int) (sum ProgramCounts, err error) {
	perCPU, err := k.PerCPU(slot)
	for _, a := range perCPU {
		sum.Seen += a.Seen
		sum.FilteredOut += a.FilteredOut
		sum.Undecided += a.Undecided
		sum.NotSampled += a.NotSampled
		sum.Lost += a.Lost
		sum.Missed += a.Missed
		sum.Sent += a.Sampled
		sum.Joined += a.Joined
	}
	return sum, err
}

// PerCPU reads the programs' counts of a slot on each CPU. The numbers never decrease.
func (k *Sampler) PerCPU(slot int) (perCPU []kernel.SamplerAccount, err error) {
	if err := k.Maps[kernel.SamplerMapAccounts].Lookup(uint32(slot), &perCPU); err != nil {
		return nil, fmt.Errorf("read the programs' counters: %w", err)
	}
	return perCPU, nil
}

// RingNumbers returns which ring each CPU has: see ring.Set.RingOf.
func (k *Sampler) RingNumbers() []uint32 {
	rings := make([]uint32, ebpf.MustPossibleCPU())
	for cpu := range rings {
		rings[cpu] = k.Rings.RingOf(cpu)
	}
	return rings
}

// SetRate makes the programs of an adaptive session keep one packet of so many.
func (k *Sampler) SetRate(oneIn uint32) error {
	if err := k.Maps[kernel.SamplerMapRates].Update(uint32(0), oneIn, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("change the sampling rate: %w", err)
	}
	return nil
}

// DrainTracers stops the tracers from accepting new packets, and returns when no packet is between
// the entry and the exit of a traced program. This must come before tracers are detached: the
// kernel then skips fexit for packets that are in the program, so there would be more entries than
// exits.
func (k *Sampler) DrainTracers() error {
	if !k.hasTracers {
		return nil
	}
	for hook := range k.Maps[kernel.SamplerMapGates].MaxEntries() {
		if err := k.setGate(hook, kernel.SamplerGateCLOSED); err != nil {
			return err
		}
	}
	return k.barrier.Wait()
}

// setGate sets which packets of a traced program a hook accepts.
func (k *Sampler) setGate(hook uint32, to kernel.SamplerGate) error {
	if err := k.Maps[kernel.SamplerMapGates].Put(hook, uint32(to)); err != nil {
		return fmt.Errorf("choose the packets of a traced program: %w", err)
	}
	return nil
}

// AwaitEnd returns when no program that was detached runs any more.
func (k *Sampler) AwaitEnd() error { return k.barrier.Wait() }

// Close releases the maps and the rings. The hooks close the programs.
func (k *Sampler) Close() error {
	errs := []error{k.barrier.Close(), k.Rings.Close()}
	if k.polls != nil {
		errs = append(errs, k.polls.Close())
	}
	for _, m := range k.Maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
