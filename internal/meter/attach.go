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
	ifi     xdp.Interface // as it was before we attached
	runs    xdp.Program   // the program at the hook, which may be a dispatcher of `program`; zero = none
	program xdp.Program   // the program whose packets are counted
	traced  bool          // `program` is not ours
	mode    xdp.Mode      // the mode that it runs in
	prog    *ebpf.Program
	link    link.Link // kept, because the garbage collector closes links that are not
}

// attach runs prog on the interface.
func attach(ifi xdp.Interface, prog *ebpf.Program, mode xdp.Mode) (*attachment, error) {
	l, got, err := xdp.Attach(prog, ifi, mode)
	if err != nil {
		return nil, err
	}
	h := &attachment{ifi: ifi, mode: got, prog: prog, link: l}
	if h.program, err = xdp.Identify(prog); err != nil {
		h.link.Close()
		return nil, fmt.Errorf("ask for the counting program's id: %w", err)
	}
	h.runs = h.program
	return h, nil
}

// trace attaches the program of spec called name to the entry or exit of the program that
// xdp.OneTarget chooses, and counts the packets that came in on ifi. It calls load once the
// specification names that target. The error is of the kind refused where the target cannot be
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
	h.prog.Close() // Close accepts a nil program
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
	defer target.Prog.Close() // the loaded program keeps its target alive
	h.program = target.Program
	spec.Programs[name].AttachTarget, spec.Programs[name].AttachTo = target.Prog, target.Function
	if err := restrictTo(h.ifi, spec); err != nil {
		return err
	}
	if h.prog, err = load(); err != nil {
		return support.ExplainTracer(err, h.program)
	}
	if h.link, err = xdp.AttachTracer(h.prog); err != nil {
		return support.ExplainTracer(err, h.program)
	}
	return nil
}

// restrictTo lets the tracing programs of spec look at the packets of this interface only.
func restrictTo(ifi xdp.Interface, spec *ebpf.CollectionSpec) error {
	constants, err := xdp.Traced(ifi)
	if err != nil {
		return err
	}
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// check returns an error once packets are not counted any more, because the program has left the
// interface or the interface has left the namespace.
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

// String says where and how it counts: "eth0, XDP native", or "eth0, tracing lb (id 7)".
func (h *attachment) String() string {
	if h.traced {
		return fmt.Sprintf("%s, tracing %v", h.ifi.Name, h.program)
	}
	return fmt.Sprintf("%s, XDP %v", h.ifi.Name, h.mode)
}

func (h *attachment) close() error {
	return errors.Join(h.link.Close(), h.prog.Close())
}
