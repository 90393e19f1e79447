package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A tailCallHook has a program for each slot of a pinned hook map, which has a slot for each
// verdict. An XDP program calls the slot of the verdict that it is about to return. Together the
// programs are one source, and each writes its verdict into its records.
type tailCallHook struct {
	filter   attach.Filter
	source   packet.Source
	hookMap  *xdp.HookMap
	programs []*ebpf.Program // by verdict
	stubs    []*xdp.Stub     // in the slots: they only return the verdict if this process is killed
	slots    []*xdp.Slot

	sampler      *Sampler // loads programs of another kind if the map rejects the first ones
	slot, number uint32   // of Load: indexes into the programs' arrays, not into the hook map
	kind         slotKind // of the programs
}

// A slotKind has the properties that the programs of a map must share with the programs that call
// them.
type slotKind struct {
	attachType ebpf.AttachType
	frags      bool // takes packets in several buffers
}

func (k slotKind) flags() uint32 {
	if k.frags {
		return unix.BPF_F_XDP_HAS_FRAGS
	}
	return 0
}

// slotKinds are the kinds that a map may accept, each with and without frags. The kernel does not
// report which one it accepts, so fillFirst tries them.
var slotKinds = []slotKind{
	{ebpf.AttachXDP, true}, {ebpf.AttachXDP, false},
	{ebpf.AttachNone, true}, {ebpf.AttachNone, false},
	{ebpf.AttachXDPDevMap, true}, {ebpf.AttachXDPDevMap, false},
	{ebpf.AttachXDPCPUMap, true}, {ebpf.AttachXDPCPUMap, false},
}

func newTailCallHook(p Point, o *Options) *tailCallHook {
	return &tailCallHook{filter: p.Filter, source: packet.Source{Name: o.HookMap, Hook: packet.TailCall}, kind: slotKinds[0]}
}

func (h *tailCallHook) Sources() []packet.Source { return []packet.Source{h.source} }

func (h *tailCallHook) Load(k *Sampler, slot, number uint32) (err error) {
	h.sampler, h.slot, h.number = k, slot, number
	if h.hookMap, err = xdp.OpenHookMap(h.source.Name); err != nil {
		return err
	}
	h.programs = make([]*ebpf.Program, h.hookMap.Slots())
	h.stubs = make([]*xdp.Stub, h.hookMap.Slots())
	h.slots = make([]*xdp.Slot, h.hookMap.Slots())
	return h.loadSlot(0)
}

// loadSlot loads the program for one verdict, of the current kind.
func (h *tailCallHook) loadSlot(verdict int) (err error) {
	h.programs[verdict], err = h.sampler.Load(Loading{
		Name: kernel.SamplerProgXdpcapXdp, Slot: h.slot, Number: h.number, filter: h.filter,
		Own:    Constants{kernel.SamplerVarVerdict: uint32(verdict)},
		Adjust: func(spec *ebpf.ProgramSpec) { spec.AttachType, spec.Flags = h.kind.attachType, h.kind.flags() },
	})
	if err != nil {
		return support.ExplainLoad(fmt.Sprintf("load the sampling program for verdict %s", xdp.Verdict(verdict)), err)
	}
	return nil
}

func (h *tailCallHook) Attach() (err error) {
	// If no program has used the map yet, our programs would decide which kind may use it.
	if err := h.hookMap.CheckCalled(); err != nil {
		return fmt.Errorf("hook map %s: %w", h.source.Name, err)
	}
	if err := h.hookMap.Lock(kernel.SamplerProgXdpcapXdp); err != nil {
		return err
	}
	if err := h.fillFirst(); err != nil {
		return err
	}
	for verdict := 1; verdict < len(h.programs); verdict++ {
		if err := h.loadSlot(verdict); err != nil {
			return err
		}
		if err := h.fill(verdict); err != nil {
			return err
		}
	}
	h.source.Sampler, err = identify(h.programs[len(h.programs)-1])
	return err
}

// fillFirst fills the first slot, and finds out which kind of program the map accepts.
func (h *tailCallHook) fillFirst() error {
	err := h.fill(0)
	for i := 1; errors.Is(err, unix.EINVAL) && i < len(slotKinds); i++ {
		h.stubs[0].Close()
		h.programs[0].Close()
		h.stubs[0], h.kind = nil, slotKinds[i]
		if err := h.loadSlot(0); err != nil {
			return err
		}
		err = h.fill(0)
	}
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: %s", err, h.hookMap.Obstacle())
	}
	return err
}

// fill puts a stub of the program into its slot. The stub's name marks leftovers of a killed
// process.
func (h *tailCallHook) fill(verdict int) (err error) {
	h.stubs[verdict], err = xdp.NewStub(h.programs[verdict], ebpf.ProgramSpec{
		Name: kernel.SamplerProgXdpcapXdp, Type: ebpf.XDP, License: "Dual BSD/GPL",
		AttachType: h.kind.attachType, Flags: h.kind.flags(),
	}, int32(verdict))
	if err != nil {
		return err
	}
	h.slots[verdict], err = h.hookMap.Put(xdp.Verdict(verdict), h.stubs[verdict].Program)
	return err
}

// Check verifies that the slots still hold the hook's programs, and that a program that calls them
// is loaded.
func (h *tailCallHook) Check() error {
	for _, slot := range h.slots {
		if err := slot.Check(); err != nil {
			return err
		}
	}
	return h.hookMap.CheckCalled()
}

func (h *tailCallHook) Detach() error {
	var errs []error
	for _, slot := range h.slots {
		errs = append(errs, slot.Close()) // Close accepts a nil slot
	}
	return errors.Join(errs...)
}

func (h *tailCallHook) Close() error {
	errs := []error{closePrograms(h.programs...)}
	for _, stub := range h.stubs {
		errs = append(errs, stub.Close())
	}
	if h.hookMap != nil {
		errs = append(errs, h.hookMap.Close())
	}
	return errors.Join(errs...)
}
