package meter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An attachment is our programs at an interface: either one at its XDP hook, or some that trace the
// program there.
type attachment struct {
	followed
	mode   xdp.Mode // the mode that our own program runs in
	began  time.Time
	counts []counting

	constants []*ebpf.Map // of programs that the caller attaches
}

// A counting program is one of ours that is attached.
type counting struct {
	prog *ebpf.Program
	link link.Link // kept, because the garbage collector closes links that are not
}

func (c counting) close() error { return errors.Join(c.link.Close(), c.prog.Close()) }

func closeAll(counts []counting) error {
	var errs []error
	for _, c := range counts {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// attach runs prog on the interface.
func attach(ifi xdp.Interface, prog *ebpf.Program, mode xdp.Mode) (*attachment, error) {
	own, err := xdp.Identify(prog)
	if err != nil {
		return nil, fmt.Errorf("ask for the counting program's id: %w", err)
	}
	h := &attachment{}
	if h.followed, err = newFollowed(ifi, "", own, nil); err != nil {
		return nil, err
	}
	l, got, err := xdp.Attach(prog, ifi, mode)
	if err != nil {
		h.watch.Close()
		return nil, err
	}
	// Some drivers stop and start their queues to take a program, and let no packet in before that
	// ends.
	h.began = time.Now()
	h.mode, h.runs = got, own.ID
	h.counts = []counting{{prog, l}}
	return h, nil
}

// tracers are programs of ours that trace an XDP program, and how they are loaded.
type tracers struct {
	spec    *ebpf.CollectionSpec
	names   []string                                 // in the order of attaching, which is also that of detaching
	prepare func(target xdp.Target) error            // before load, for each program to trace; nil = nothing
	load    func(name string) (*ebpf.Program, error) // once spec names the program to trace
	refused error                                    // the kind of error if a program cannot be traced
}

// trace attaches tracers to the program that xdp.OneProgram selects. They count the packets that
// came in on ifi.
func trace(ifi xdp.Interface, selector string, t tracers) (*attachment, error) {
	program, err := xdp.OneProgram(ifi, selector)
	if err != nil {
		return nil, err
	}
	h := &attachment{}
	if h.followed, err = newFollowed(ifi, selector, program, func(ifi xdp.Interface, to xdp.Program) error { return h.move(t, ifi, to) }); err != nil {
		return nil, err
	}
	if err := h.move(t, ifi, program); err != nil {
		h.watch.Close()
		return nil, err
	}
	return h, nil
}

// move traces another program instead of the current one. After an error it still traces the
// current one.
func (h *attachment) move(t tracers, ifi xdp.Interface, to xdp.Program) error {
	counts, err := t.attach(to, ifi)
	if reason := (*xdp.TracingError)(nil); errors.As(err, &reason) {
		return errkind.Errorf(t.refused, "%s: %w", h.ifi.Name, err)
	}
	if err != nil {
		return err
	}
	if h.began.IsZero() {
		h.began = time.Now()
	}
	before := h.counts
	h.counts = counts
	return closeAll(before)
}

// attach attaches all tracers to a program, or none.
func (t *tracers) attach(to xdp.Program, ifi xdp.Interface) (counts []counting, err error) {
	target, err := xdp.OpenTarget(to.ID)
	if err != nil {
		return nil, err
	}
	defer target.Prog.Close() // the loaded tracers keep their target alive
	if err := RestrictTo(ifi, t.spec); err != nil {
		return nil, err
	}
	if t.prepare != nil {
		if err := t.prepare(target); err != nil {
			return nil, err
		}
	}
	for _, name := range t.names {
		c, err := t.attachOne(name, target)
		if err != nil {
			closeAll(counts)
			return nil, err
		}
		counts = append(counts, c)
	}
	return counts, nil
}

func (t *tracers) attachOne(name string, target xdp.Target) (c counting, err error) {
	t.spec.Programs[name].AttachTarget, t.spec.Programs[name].AttachTo = target.Prog, target.Function
	if c.prog, err = t.load(name); err != nil {
		return c, support.ExplainTracer(err, target.Program)
	}
	if c.link, err = xdp.AttachTracer(c.prog); err != nil {
		c.prog.Close()
		return c, support.ExplainTracer(err, target.Program)
	}
	return c, nil
}

// RestrictTo lets the tracing programs of spec, which include bpf/include/traced.h, look at the
// packets of this interface only.
func RestrictTo(ifi xdp.Interface, spec *ebpf.CollectionSpec) error {
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

// Began returns when counting began, by the clocks of time.Now.
func (h *attachment) Began() time.Time { return h.began }

// String tells where and how it counts: "eth0, XDP native", or "eth0, tracing lb (id 7)".
func (h *attachment) String() string {
	if h.isEmbedded() {
		return h.ifi.Name
	}
	if h.isOwn() {
		return fmt.Sprintf("%s, XDP %v", h.ifi.Name, h.mode)
	}
	return fmt.Sprintf("%s, tracing %v", h.ifi.Name, h.Program())
}

// Capabilities are those of what is followed, and CAP_NET_ADMIN if closing has to switch on what
// attaching has switched off.
func (h *attachment) Capabilities() []int {
	needs := h.followed.Capabilities()
	if slices.ContainsFunc(h.counts, func(c counting) bool { return xdp.SwitchedOff(c.link) != nil }) {
		needs = append(needs, unix.CAP_NET_ADMIN)
	}
	return needs
}

func (h *attachment) close() error {
	errs := []error{closeAll(h.counts)}
	if !h.isEmbedded() {
		h.watch.Close()
	}
	for _, m := range h.constants {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
