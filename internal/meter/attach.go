package meter

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An attachment is one of our programs at an interface: at its XDP hook, or tracing the program
// that runs there.
type attachment struct {
	ifi     xdp.Interface // as it was before
	runs    xdp.Program   // what the interface runs now: the program, or one that it is behind; zero = none
	program xdp.Program   // what is counted
	traced  bool          // that one is not ours
	mode    xdp.Mode      // what it runs in
	prog    *ebpf.Program
	link    link.Link // A link that is not held is closed by the garbage collector.
}

// attach runs prog on the interface.
func attach(ifi xdp.Interface, prog *ebpf.Program, mode xdp.Mode) (*attachment, error) {
	l, got, err := xdp.Attach(prog, ifi, mode)
	if err != nil {
		return nil, err
	}
	h := &attachment{ifi: ifi, mode: got, prog: prog, link: l}
	info, err := prog.Info()
	if err != nil {
		h.link.Close()
		return nil, fmt.Errorf("ask for the counting program's id: %w", err)
	}
	id, _ := info.ID()
	h.program = xdp.Program{ID: uint32(id), Name: info.Name}
	h.runs = h.program
	return h, nil
}

// tracedIfindex is the name of a constant that bpf/include/traced.h gives every tracing program.
const tracedIfindex = latencyVarTracedIfindex

// trace runs the tracing program of spec called name at the entry or exit of the program that
// xdp.OneTarget chooses, for packets that come in on the interface. load loads it once the
// specification names its target. The error is of the kind refused where the target cannot be
// traced.
func trace(ifi xdp.Interface, selector string, spec *ebpf.CollectionSpec, name string, refused error, load func() (*ebpf.Program, error)) (*attachment, error) {
	h := &attachment{ifi: ifi, traced: true, mode: ifi.Mode}
	if len(ifi.Programs) > 0 {
		h.runs = ifi.Programs[0]
	}
	err := h.trace(selector, spec, name, load)
	if err == nil {
		return h, nil
	}
	h.prog.Close() // takes nil
	if reason := (*xdp.TracingError)(nil); errors.As(err, &reason) {
		err = xdp.Kind(refused, "%s: %w", ifi.Name, err)
	}
	return nil, err
}

func (h *attachment) trace(selector string, spec *ebpf.CollectionSpec, name string, load func() (*ebpf.Program, error)) error {
	target, err := xdp.OneTarget(h.ifi, selector)
	if err != nil {
		return err
	}
	defer target.Prog.Close() // what is loaded holds on to it
	h.program = target.Program
	spec.Programs[name].AttachTarget, spec.Programs[name].AttachTo = target.Prog, target.Function
	if err := spec.Variables[tracedIfindex].Set(uint32(h.ifi.Index)); err != nil {
		return fmt.Errorf("set %s: %w", tracedIfindex, err)
	}
	if h.prog, err = load(); err != nil {
		return support.ExplainTracer(err, h.program)
	}
	if h.link, err = xdp.AttachTracer(h.prog); err != nil {
		return support.ExplainTracer(err, h.program)
	}
	return nil
}

// check returns an error once packets are not counted any more: what ran on the interface has left
// it, or the interface the namespace.
func (h *attachment) check() error {
	now, err := xdp.InterfaceByName(h.ifi.Name)
	if err != nil {
		return err
	}
	if now.Index != h.ifi.Index {
		return fmt.Errorf("%s is another interface now, and nothing is counted any more: start again", h.ifi.Name)
	}
	if h.runs.ID != 0 && (len(now.Programs) == 0 || now.Programs[0].ID != h.runs.ID) {
		return fmt.Errorf("%v has left %s, and nothing is counted any more: start again", h.runs, h.ifi.Name)
	}
	return nil
}

// String says where it counts, and how.
func (h *attachment) String() string {
	if h.traced {
		return fmt.Sprintf("%s, tracing %v", h.ifi.Name, h.program)
	}
	return fmt.Sprintf("%s, XDP %v", h.ifi.Name, h.mode)
}

func (h *attachment) close() error {
	return errors.Join(h.link.Close(), h.prog.Close())
}
