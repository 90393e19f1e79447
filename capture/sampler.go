package capture

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A sampler is bpf/sampler.c in the kernel: maps that all its programs share, sources of packets, and the
// programs that are to be attached for them.
type sampler struct {
	options  Options
	spec     *ebpf.CollectionSpec
	maps     map[string]*ebpf.Map
	rings    *ebpf.Map // by CPU
	counts   *ebpf.Map // by source
	flowSeed uint64    // each session has its own choice of flows, the same on all interfaces
	sources  []Interface
	programs []program
	hookMap  *xdp.HookMap // nil without Options.HookMap
}

// A program is loaded, and attached by its function.
type program struct {
	prog   *ebpf.Program
	attach func(p *ebpf.Program) (io.Closer, error)
	link   io.Closer // nil = not attached. A link that is not held is closed by the garbage collector.
}

func newSampler(plans []plan, o Options) (*sampler, error) {
	spec, err := loadSampler()
	if err != nil {
		return nil, err
	}
	k := &sampler{options: o, spec: spec, maps: make(map[string]*ebpf.Map), flowSeed: rand.Uint64()}
	if err := k.makeMaps(plans); err != nil {
		k.close()
		return nil, err
	}
	for i, p := range plans {
		var err error
		switch {
		case p.target != nil:
			err = k.addTracers(p, uint32(i))
		case p.hooks[0] == TailCall:
			err = k.addHookMap(p)
		default:
			err = k.addXDP(p)
		}
		if err != nil {
			k.close()
			return nil, err
		}
	}
	return k, nil
}

// makeMaps makes what the programs share: all but their constants.
func (k *sampler) makeMaps(plans []plan) error {
	sources := 0
	for _, p := range plans {
		sources += len(p.hooks)
	}
	k.spec.Maps[samplerMapAccounts].MaxEntries = uint32(sources)
	k.spec.Maps[samplerMapPassages].MaxEntries = uint32(len(plans))
	if k.options.First == 0 {
		k.spec.Maps[samplerMapFlows].MaxEntries = 1 // nobody looks into it, and it would be large
	}
	for name, m := range k.spec.Maps {
		if name == ".rodata" {
			continue
		}
		made, err := ebpf.NewMap(m)
		if err != nil {
			return support.ExplainLoad("create the map "+name, err)
		}
		k.maps[name] = made
	}
	k.rings, k.counts = k.maps[samplerMapSamples], k.maps[samplerMapAccounts]
	if k.options.MaxRate == 0 {
		return nil
	}
	now, err := gettime(unix.CLOCK_MONOTONIC)
	if err != nil {
		return err
	}
	// Room for one packet: a full second's burst at the start would double the rate there.
	paid := uint64(now)<<samplerLimitTIME_SHIFT - packetCost(k.options.MaxRate)
	if err := k.maps[samplerMapBucket].Put(uint32(0), paid); err != nil {
		return fmt.Errorf("fill the token bucket: %w", err)
	}
	return nil
}

// packetCost is the time that a packet pays with at so many packets per second, in the program's unit.
func packetCost(rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	return uint64(time.Second) << samplerLimitTIME_SHIFT / rate
}

// constants are the programs' `volatile const` variables by name.
type constants map[string]any

// load loads one program. What it decides by is the same for all but the filter; its place is in c.
func (k *sampler) load(spec *ebpf.CollectionSpec, name string, c constants, f code) (*ebpf.Program, error) {
	o := &k.options
	for name, value := range (constants{
		samplerVarSnaplen:         uint32(o.SnapLen),
		samplerVarFiltering:       f.body != nil,
		samplerVarFilteringLength: f.length,
		samplerVarReach:           uint32(f.reach),
		samplerVarOneIn:           o.Sample,
		samplerVarKeepFlowsBelow:  keepBelow(o.SampleFlows),
		samplerVarFlowSeed:        k.flowSeed,
		samplerVarFirstPackets:    o.First,
		samplerVarPacketCost:      packetCost(o.MaxRate),
		samplerVarVerdicts:        verdictBits(o.Verdicts),
	}) {
		c[name] = value
	}
	for name, value := range c {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	if f.body != nil {
		if err := filter.Replace(spec.Programs[name], f.stub, f.body); err != nil {
			return nil, err
		}
	}
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: k.maps})
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

// keepBelow is the largest 32-bit number that one in n of all of them is not above.
func keepBelow(n uint32) uint32 { return uint32(math.MaxUint32 / uint64(n)) }

// addXDP adds a program of our own at the XDP hook.
func (k *sampler) addXDP(p plan) error {
	verdict := xdp.Pass
	if k.options.Sink {
		verdict = xdp.Drop
	}
	index := len(k.sources)
	prog, err := k.load(k.spec.Copy(), samplerProgSampleXdp, constants{
		samplerVarSource:  uint32(index),
		samplerVarVerdict: uint32(verdict),
	}, p.filter)
	if err != nil {
		return support.ExplainLoad("load the sampling program", err)
	}
	k.programs = append(k.programs, program{prog: prog, attach: func(prog *ebpf.Program) (io.Closer, error) {
		l, mode, err := xdp.Attach(prog, p.ifi, k.options.Mode)
		k.sources[index].Mode = mode
		return l, err
	}})
	k.sources = append(k.sources, Interface{Interface: p.ifi, Hook: XDP})
	return k.name(prog)
}

// name notes the program in the source that was added last.
func (k *sampler) name(prog *ebpf.Program) error {
	info, err := prog.Info()
	if err != nil {
		return fmt.Errorf("ask for the sampling program's id: %w", err)
	}
	id, _ := info.ID()
	k.sources[len(k.sources)-1].Program = xdp.Program{ID: uint32(id), Name: info.Name}
	return nil
}

// attach begins to sample, with all programs or with none.
func (k *sampler) attach() error {
	for i := range k.programs {
		p := &k.programs[i]
		l, err := p.attach(p.prog)
		if err != nil {
			return err
		}
		p.link = l
	}
	return nil
}

// detach ends what attach began, backwards. An error can only say that the kernel was faster.
func (k *sampler) detach() {
	for _, p := range slices.Backward(k.programs) {
		if p.link != nil {
			p.link.Close()
		}
	}
}

func (k *sampler) close() error {
	var errs []error
	for _, m := range k.maps {
		errs = append(errs, m.Close())
	}
	for _, p := range k.programs {
		errs = append(errs, p.prog.Close())
	}
	if k.hookMap != nil {
		errs = append(errs, k.hookMap.Close())
	}
	return errors.Join(errs...)
}

// cpus is how many CPUs there can be.
func (k *sampler) cpus() int { return int(k.rings.MaxEntries()) }

func (k *sampler) setRing(cpu, fd int) error {
	if err := k.rings.Put(uint32(cpu), uint32(fd)); err != nil {
		return fmt.Errorf("hand the ring of CPU %d to the sampling program: %w", cpu, err)
	}
	return nil
}

// accounts reads each source's counters, summed over the CPUs.
func (k *sampler) accounts() ([]samplerAccount, error) {
	sums := make([]samplerAccount, len(k.sources))
	for i := range sums {
		var perCPU []samplerAccount
		if err := k.counts.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("read the counters of %s: %w", k.sources[i].Name, err)
		}
		for _, a := range perCPU {
			sums[i].Seen += a.Seen
			sums[i].FilteredOut += a.FilteredOut
			sums[i].NotSampled += a.NotSampled
			sums[i].Lost += a.Lost
			sums[i].Sampled += a.Sampled
		}
	}
	return sums, nil
}

func (k *sampler) interfaceName(index int) string {
	for _, src := range k.sources {
		if src.Index == index {
			return src.Name
		}
	}
	return fmt.Sprintf("number %d", index)
}
