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
	Name       string
	Slot       uint32 // of its source, or of the first source of its hook
	Number     uint32 // of its hook
	filter     attach.Filter
	companions companions
	Own        Constants               // override those of the options and of the filter
	Adjust     func(*ebpf.ProgramSpec) // changes the specification; nil = no change
	reasons    *xdp.ReasonMap          // the traced program's reasons for drops; nil = they are not read
}

// Load loads one program.
func (k *Sampler) Load(l Loading) (*ebpf.Program, error) {
	spec, values := k.spec.Copy(), k.constants()
	maps.Copy(values, l.filter.Constants())
	values[kernel.SamplerVarSource], values[kernel.SamplerVarHook] = l.Slot, l.Number
	values[kernel.SamplerVarAccompanied] = !l.companions.isNone()
	values[kernel.SamplerVarReadingReasons] = l.reasons != nil
	maps.Copy(values, l.Own)
	if err := attach.Set(spec, values); err != nil {
		return nil, err
	}
	program, types := spec.Programs[l.Name], xdp.KernelTypes()
	if err := l.filter.Put(program); err != nil {
		return nil, err
	}
	if err := l.companions.join(program); err != nil {
		return nil, err
	}
	if err := xdp.FindRedirects(spec, l.Name, types); err != nil {
		return nil, err
	}
	if l.Adjust != nil {
		l.Adjust(program)
	}
	if err := xdp.Alone(program); err != nil { // so that nothing interrupts it on its CPU
		return nil, err
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{l.Name: program}
	if !slices.ContainsFunc(program.Instructions, readsScratch) {
		delete(spec.Maps, kernel.SamplerMapScratches) // it would be created, and is large
	}
	opts := ebpf.CollectionOptions{MapReplacements: k.Maps, Cache: types}
	if l.reasons != nil {
		l.reasons.ReplaceIn(spec.Maps[kernel.SamplerMapGivenReasons])
		opts.MapReplacements = maps.Clone(k.Maps)
		opts.MapReplacements[kernel.SamplerMapGivenReasons] = l.reasons.Map
	}
	if program.Type == ebpf.XDP {
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
	return coll.DetachProgram(l.Name), nil
}

func readsScratch(ins asm.Instruction) bool { return ins.Reference() == kernel.SamplerMapScratches }

// withoutModules returns the types of the kernel without those of its modules, which XDP programs
// do not read. There are none if the kernel does not describe its types; the verifier then removes
// the code that would read them.
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

// keepBelow returns the upper bound that holds for a random 32-bit number with a probability of
// 1/n. n is at least 1.
func keepBelow(n uint32) uint32 { return uint32(math.MaxUint32 / uint64(n)) }

// verdictList returns the verdicts, at most MaxVerdicts, as the program expects them.
func verdictList(verdicts []packet.Verdict) (list [MaxVerdicts]uint32) {
	for i, v := range verdicts {
		list[i] = uint32(v)
	}
	return list
}
