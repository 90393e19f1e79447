package probe

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Constants are values of `volatile const` variables of bpf/sampler.c, by their names.
type Constants map[string]any

// companions returns the companions at a source.
func (k *Sampler) companions(src *packet.Source) (c companions, err error) {
	if k.Options.Companions != nil {
		c.first, c.last, err = k.Options.Companions(*src)
	}
	return c, err
}

// A Loading is the program of bpf/sampler.c to load, and its configuration.
type Loading struct {
	Name   string
	First  uint32 // index of its source, or of the first of its hook
	Index  uint32 // of its hook
	filter attach.Filter
	with   companions
	Own    Constants               // in addition to those of the options and of the filter
	Adjust func(*ebpf.ProgramSpec) // changes the specification; nil = no change

	reasons *xdp.ReasonMap // from which it reads why packets are dropped; nil = it does not
}

// Load loads one program.
func (k *Sampler) Load(l Loading) (*ebpf.Program, error) {
	name := l.Name
	spec := k.spec.Copy()
	values := k.constants()
	maps.Copy(values, l.filter.Constants())
	values[kernel.SamplerVarSource], values[kernel.SamplerVarHook] = l.First, l.Index
	values[kernel.SamplerVarAccompanied] = !l.with.isNone()
	values[kernel.SamplerVarReadingReasons] = l.reasons != nil
	maps.Copy(values, l.Own)
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
	if err := xdp.FindRedirects(spec, name, types); err != nil {
		return nil, err
	}
	if l.Adjust != nil {
		l.Adjust(spec.Programs[name])
	}
	if err := xdp.Alone(spec.Programs[name]); err != nil {
		return nil, err
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
	if !slices.ContainsFunc(spec.Programs[name].Instructions, readsScratch) {
		delete(spec.Maps, kernel.SamplerMapScratches) // it would be made, and is large
	}
	opts := ebpf.CollectionOptions{MapReplacements: k.Maps, Cache: types}
	if l.reasons != nil {
		l.reasons.ReplaceIn(spec.Maps[kernel.SamplerMapGivenReasons])
		opts.MapReplacements = maps.Clone(k.Maps)
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

func readsScratch(ins asm.Instruction) bool { return ins.Reference() == kernel.SamplerMapScratches }

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
func (k *Sampler) constants() Constants {
	o := k.Options
	return Constants{
		kernel.SamplerVarSnaplen:          uint32(o.SnapLen),
		kernel.SamplerVarCuttingPayload:   o.HeadersOnly,
		kernel.SamplerVarPayloadKept:      uint32(o.Payload),
		kernel.SamplerVarStamping:         uint32(k.Stamping),
		kernel.SamplerVarOneIn:            o.oneIn(),
		kernel.SamplerVarDrawingByVerdict: o.SampleVerdicts != nil,
		kernel.SamplerVarOneInOf:          o.oneInOf(),
		kernel.SamplerVarChoosingFlows:    o.ChoosesFlows(),
		kernel.SamplerVarKeepFlowsBelow:   keepBelow(o.SampleFlows),
		kernel.SamplerVarFlowSeed:         k.flowSeed,
		kernel.SamplerVarArrival:          k.Arrival,
		kernel.SamplerVarFirstPackets:     o.First,
		kernel.SamplerVarPacketCost:       packetCost(o.bucketRate()),
		kernel.SamplerVarVerdicts:         verdictList(o.Verdicts),
		kernel.SamplerVarVerdictCount:     uint32(len(o.Verdicts)),
		kernel.SamplerVarSlowerThan:       uint32(o.SlowerThan),
		kernel.SamplerVarImageRoom:        o.imageRoom(),

		kernel.SamplerVarFollowingFragments: o.Fragments,
		kernel.SamplerVarReplaceable:        o.FilterChanges,
	}
}

// keepBelow is the bound that a uniformly distributed 32-bit number does not exceed with a
// probability of 1/n.
func keepBelow(n uint32) uint32 { return uint32(math.MaxUint32 / uint64(n)) }

// verdictList returns the verdicts, at most MaxVerdicts, as the program expects them.
func verdictList(verdicts []packet.Verdict) (list [MaxVerdicts]uint32) {
	for i, v := range verdicts {
		list[i] = uint32(v)
	}
	return list
}
