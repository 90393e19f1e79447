// Package probe loads the programs of bpf/sampler.c, and attaches them: at XDP, around a running
// XDP program, in a hook map, at tc, and where packets get lost. It lists the sources of a session
// as they come and go, takes packets from the rings in the order of their stamps, and joins the
// programs' counts of each source with those of the reader.
package probe

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Hook is where on an interface a session samples packets. Each kind is in its own file,
// hook_NAME.go, and Options.Choose chooses among them. Load, Attach, Detach and Close are called
// once, in this order; after an error, only Detach and Close. Check is called repeatedly while the
// hook is attached. Any goroutine may call Check and Detach, but only one at a time.
type Hook interface {
	// Sources returns the hook's sources, in the order in which a packet passes them. Their modes
	// and programs are known once the hook is attached. It may be called at any time.
	Sources() []packet.Source
	// Load loads the programs. slot is the slot of the hook's first source, and number is the
	// hook's own: indexes into the programs' arrays.
	Load(k *Sampler, slot, number uint32) error
	// Attach starts sampling.
	Attach() error
	// Check returns why the hook no longer gets its packets: an xdp.ErrGone, or another change of
	// the hook; nil = it does.
	Check() error
	// Detach stops sampling. It also works after Attach has failed halfway.
	Detach() error
	// Close releases the programs.
	Close() error
}

// A cardHook is a hook whose program requests metadata about packets from the card.
type cardHook interface{ Card() Card }

// AttachAll starts sampling at all hooks. After an error some of them are attached.
func AttachAll(hooks []Hook) error {
	for _, h := range hooks {
		if err := h.Attach(); err != nil {
			return err
		}
	}
	return nil
}

// DetachAll stops sampling, in the opposite order.
func DetachAll(hooks []Hook) error {
	var errs []error
	for _, h := range slices.Backward(hooks) {
		errs = append(errs, h.Detach())
	}
	return errors.Join(errs...)
}

// EndAll detaches hooks, and returns when all their programs have ended.
func (k *Sampler) EndAll(hooks []Hook) error {
	return errors.Join(DetachAll(hooks), k.AwaitEnd())
}

// CloseAll releases the programs of all hooks.
func CloseAll(hooks []Hook) error {
	var errs []error
	for _, h := range hooks {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// An interfaceHook is the common part of the hooks at an interface: programs that are attached
// together, and one source.
type interfaceHook struct {
	ifi      xdp.Interface
	filter   attach.Filter
	Source   packet.Source
	Programs []*ebpf.Program
	attached *attach.Attachment // nil = not attached
}

func newInterfaceHook(ifi xdp.Interface, f attach.Filter, at packet.Hook) interfaceHook {
	return interfaceHook{ifi: ifi, filter: f, Source: newSource(ifi, at)}
}

func (h *interfaceHook) Sources() []packet.Source { return []packet.Source{h.Source} }

// loadProgram loads a program and adds it. tried is its purpose, for an error.
func (h *interfaceHook) loadProgram(k *Sampler, tried string, l Loading) error {
	l.filter = h.filter
	p, err := k.Load(l)
	if err != nil {
		return support.ExplainLoad(tried, err)
	}
	return h.addProgram(p)
}

// addProgram adds a loaded program. The first one becomes the sampler of the source.
func (h *interfaceHook) addProgram(p *ebpf.Program) (err error) {
	if h.Programs = append(h.Programs, p); len(h.Programs) == 1 {
		h.Source.Sampler, err = identify(p)
	}
	return err
}

func (h *interfaceHook) Check() error { return h.attached.Check() }

// Detach does nothing if the hook is not attached: a nil Attachment may be closed.
func (h *interfaceHook) Detach() error { return h.attached.Close() }

func (h *interfaceHook) Close() error { return closePrograms(h.Programs...) }

// identify reads the id and the name of a program from the kernel.
func identify(p *ebpf.Program) (packet.Program, error) {
	identity, err := xdp.Identify(p)
	if err != nil {
		return packet.Program{}, fmt.Errorf("ask for the sampling program's id: %w", err)
	}
	return identity, nil
}

func closePrograms(programs ...*ebpf.Program) error {
	var errs []error
	for _, p := range programs {
		errs = append(errs, p.Close()) // Close accepts a nil program
	}
	return errors.Join(errs...)
}

// PrepareSlots makes the slots of a hook number ready for other programs after the last ones were
// detached. It removes the decisions about packets that were in a traced program at that time. It
// passes the losses of each slot on each CPU to `lost`, so that a packet of the next programs does
// not report them. And it makes the packet ids continue: tracers count packets in the map of
// passages, other programs in their accounts.
func (k *Sampler) PrepareSlots(number int, slots []int, lost func(slot int, byCPU []uint64)) error {
	seen := make([]uint64, ebpf.MustPossibleCPU())
	for _, slot := range slots {
		perCPU, err := k.PerCPU(slot)
		if err != nil {
			return err
		}
		byCPU := make([]uint64, len(perCPU))
		for cpu := range perCPU {
			byCPU[cpu], seen[cpu] = perCPU[cpu].Lost, max(seen[cpu], perCPU[cpu].Seen)
		}
		lost(slot, byCPU)
	}
	var perCPU []kernel.SamplerPassage
	if err := k.Maps[kernel.SamplerMapPassages].Lookup(uint32(number), &perCPU); err != nil {
		return fmt.Errorf("read what the tracers note: %w", err)
	}
	for cpu := range perCPU {
		perCPU[cpu].Decision, perCPU[cpu].Packets = 0, max(perCPU[cpu].Packets, seen[cpu])
		perCPU[cpu].Replaced = 0
	}
	if err := k.Maps[kernel.SamplerMapPassages].Put(uint32(number), perCPU); err != nil {
		return fmt.Errorf("clear what the tracers note: %w", err)
	}
	return k.setGate(uint32(number), kernel.SamplerGateOPEN)
}
