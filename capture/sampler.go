package capture

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A sampler is bpf/sampler.c in the kernel: maps that all its programs share, and one program for each
// source of packets.
type sampler struct {
	maps     map[string]*ebpf.Map
	rings    *ebpf.Map // by CPU
	counts   *ebpf.Map // by source
	flowSeed uint64    // each session has its own choice of flows, the same on all interfaces
	sources  []source
}

type source struct {
	ifi  Interface
	prog *ebpf.Program
	link link.Link // nil = not attached. A link that is not held is closed by the garbage collector.
}

func newSampler(ifis []xdp.Interface, filters []asm.Instructions, o Options) (*sampler, error) {
	spec, err := loadSampler()
	if err != nil {
		return nil, err
	}
	k := &sampler{maps: make(map[string]*ebpf.Map), flowSeed: rand.Uint64()}
	if err := k.makeMaps(spec, len(ifis), o); err != nil {
		return nil, errors.Join(err, k.close())
	}
	for i, ifi := range ifis {
		prog, err := k.load(spec.Copy(), uint32(i), filters[i], o)
		if err != nil {
			return nil, errors.Join(privileged("load the sampling program", err), k.close())
		}
		k.sources = append(k.sources, source{ifi: Interface{Interface: ifi}, prog: prog})
	}
	return k, nil
}

// makeMaps makes what the programs share: all but their constants.
func (k *sampler) makeMaps(spec *ebpf.CollectionSpec, sources int, o Options) error {
	spec.Maps[samplerMapAccounts].MaxEntries = uint32(sources)
	if o.First == 0 {
		spec.Maps[samplerMapFlows].MaxEntries = 1 // nobody looks into it, and it would be large
	}
	for _, name := range []string{samplerMapSamples, samplerMapAccounts, samplerMapHeads, samplerMapFlows, samplerMapBucket} {
		m, err := ebpf.NewMap(spec.Maps[name])
		if err != nil {
			return privileged("create the map "+name, err)
		}
		k.maps[name] = m
	}
	k.rings, k.counts = k.maps[samplerMapSamples], k.maps[samplerMapAccounts]
	if o.MaxRate == 0 {
		return nil
	}
	now, err := gettime(unix.CLOCK_MONOTONIC)
	if err != nil {
		return err
	}
	// Room for one packet: a full second's burst at the start would double the rate there.
	paid := uint64(now)<<samplerLimitTIME_SHIFT - packetCost(o.MaxRate)
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

func (k *sampler) load(spec *ebpf.CollectionSpec, index uint32, body asm.Instructions, o Options) (*ebpf.Program, error) {
	verdict := xdp.Pass
	if o.Sink {
		verdict = xdp.Drop
	}
	for name, value := range map[string]any{
		samplerVarSource:         index,
		samplerVarSnaplen:        uint32(o.SnapLen),
		samplerVarVerdict:        uint32(verdict),
		samplerVarFiltering:      body != nil,
		samplerVarKeepBelow:      keepBelow(o.Sample),
		samplerVarKeepFlowsBelow: keepBelow(o.SampleFlows),
		samplerVarFlowSeed:       k.flowSeed,
		samplerVarFirstPackets:   o.First,
		samplerVarPacketCost:     packetCost(o.MaxRate),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	if body != nil {
		if err := filter.Replace(spec.Programs[samplerProgSampleXdp], "filter", body); err != nil {
			return nil, err
		}
	}
	var progs samplerPrograms
	err := spec.LoadAndAssign(&progs, &ebpf.CollectionOptions{MapReplacements: k.maps})
	return progs.SampleXdp, err
}

// keepBelow is the largest 32-bit number that one in n of all of them is not above.
func keepBelow(n uint32) uint32 { return uint32(math.MaxUint32 / uint64(n)) }

// privileged replaces what the library guesses about a refusal: the capabilities have been checked by then.
func privileged(tried string, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: %w although this process holds the capabilities: a container, a seccomp filter "+
			"or the kernel's lockdown forbids it", tried, unix.EPERM)
	}
	return fmt.Errorf("%s: %w", tried, err)
}

// attach begins to sample: on all interfaces, or the error says on which it was not possible.
func (k *sampler) attach(mode Mode) error {
	for i := range k.sources {
		src := &k.sources[i]
		l, got, err := xdp.Attach(src.prog, src.ifi.Interface, mode)
		if err != nil {
			return err
		}
		src.link, src.ifi.Mode = l, got
		info, err := src.prog.Info()
		if err != nil {
			return fmt.Errorf("ask for the sampling program's id: %w", err)
		}
		id, _ := info.ID()
		src.ifi.Program = xdp.Program{ID: uint32(id), Name: info.Name}
	}
	return nil
}

// detach leaves the interfaces. An error can only say that the kernel was faster.
func (k *sampler) detach() {
	for _, src := range k.sources {
		if src.link != nil {
			src.link.Close()
		}
	}
}

func (k *sampler) close() error {
	var errs []error
	for _, m := range k.maps {
		errs = append(errs, m.Close())
	}
	for _, src := range k.sources {
		errs = append(errs, src.prog.Close())
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
			return nil, fmt.Errorf("read the counters of %s: %w", k.sources[i].ifi.Name, err)
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

func (k *sampler) interfaces() []Interface {
	ifis := make([]Interface, len(k.sources))
	for i, src := range k.sources {
		ifis[i] = src.ifi
	}
	return ifis
}

func (k *sampler) interfaceName(index int) string {
	for _, src := range k.sources {
		if src.ifi.Index == index {
			return src.ifi.Name
		}
	}
	return fmt.Sprintf("number %d", index)
}
