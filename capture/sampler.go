package capture

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A sampler is bpf/sampler.c in the kernel: the two maps that all its programs share, and one program
// for each source of packets.
type sampler struct {
	rings   *ebpf.Map // by CPU
	counts  *ebpf.Map // by source
	sources []source
}

type source struct {
	ifi  Interface
	prog *ebpf.Program
	link link.Link // nil = not attached. A link that is not held is closed by the garbage collector.
}

func newSampler(ifis []xdp.Interface, o Options) (*sampler, error) {
	spec, err := loadSampler()
	if err != nil {
		return nil, err
	}
	spec.Maps[samplerMapAccounts].MaxEntries = uint32(len(ifis))
	var k sampler
	if k.rings, err = ebpf.NewMap(spec.Maps[samplerMapSamples]); err != nil {
		return nil, privileged("create the map of the perf rings", err)
	}
	if k.counts, err = ebpf.NewMap(spec.Maps[samplerMapAccounts]); err != nil {
		return nil, errors.Join(privileged("create the map of the counters", err), k.close())
	}
	for i, ifi := range ifis {
		prog, err := k.load(spec.Copy(), uint32(i), o)
		if err != nil {
			return nil, errors.Join(privileged("load the sampling program", err), k.close())
		}
		k.sources = append(k.sources, source{ifi: Interface{Interface: ifi}, prog: prog})
	}
	return &k, nil
}

func (k *sampler) load(spec *ebpf.CollectionSpec, index uint32, o Options) (*ebpf.Program, error) {
	verdict := xdp.Pass
	if o.Sink {
		verdict = xdp.Drop
	}
	for name, value := range map[string]any{
		samplerVarSource:    index,
		samplerVarSnaplen:   uint32(o.SnapLen),
		samplerVarKeepBelow: uint32(math.MaxUint32 / uint64(o.Sample)),
		samplerVarVerdict:   uint32(verdict),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	var progs samplerPrograms
	err := spec.LoadAndAssign(&progs, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		samplerMapSamples:  k.rings,
		samplerMapAccounts: k.counts,
	}})
	return progs.SampleXdp, err
}

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
	errs := []error{k.rings.Close(), k.counts.Close()}
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
