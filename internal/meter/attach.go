package meter

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An attachment is our programs at an interface: one of ours that counts there, some that trace the
// program there, or some that the caller attaches.
type attachment struct {
	ifi     xdp.Interface      // as it was before we attached
	at      *attach.Attachment // nil: the caller attaches the programs
	traced  *followed          // nil: none is traced by us
	program xdp.Program        // where the caller attaches the programs: the one that it traces
	way     string             // how a program of ours is attached, for String
	began   time.Time

	constants []*ebpf.Map // of programs that the caller attaches
}

// attachXDP runs prog at the XDP hook of the interface. It closes prog: the kernel keeps it.
func attachXDP(ifi xdp.Interface, prog *ebpf.Program, mode xdp.Mode) (*attachment, error) {
	defer prog.Close()
	at, err := attach.XDP(ifi, prog, mode)
	if err != nil {
		return nil, err
	}
	// Some drivers stop and start their queues to take a program, and let no packet in before that
	// ends.
	return &attachment{ifi: ifi, at: at, began: time.Now(), way: fmt.Sprintf("XDP %v", at.Mode)}, nil
}

// attachEgress runs prog for what the interface sends. It closes prog: the kernel keeps it.
func attachEgress(ifi xdp.Interface, prog *ebpf.Program) (*attachment, error) {
	defer prog.Close()
	at, err := attach.TC(ifi, prog, tc.Egress)
	if err != nil {
		return nil, err
	}
	return &attachment{ifi: ifi, at: at, began: time.Now(), way: "sent, " + at.How}, nil
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
	h := &attachment{ifi: ifi}
	move := func(ifi xdp.Interface, to xdp.Program) error {
		at, err := t.attach(to, ifi)
		if reason := (*xdp.TracingError)(nil); errors.As(err, &reason) {
			return errkind.Errorf(t.refused, "%s: %w", h.ifi.Name, err)
		}
		if err != nil {
			return err
		}
		before := h.at
		h.at = at
		return before.Close() // a nil Attachment may be closed
	}
	if h.traced, err = newFollowed(ifi, selector, program, move); err != nil {
		return nil, err
	}
	if err := move(ifi, program); err != nil {
		h.traced.watch.Close()
		return nil, err
	}
	h.began = time.Now()
	return h, nil
}

// attach attaches all tracers to a program, or none.
func (t *tracers) attach(to xdp.Program, ifi xdp.Interface) (*attach.Attachment, error) {
	target, err := xdp.OpenTarget(to.ID)
	if err != nil {
		return nil, err
	}
	defer target.Prog.Close() // the loaded tracers keep their target alive
	return t.attachTo(target, ifi)
}

func (t *tracers) attachTo(target xdp.Target, ifi xdp.Interface) (*attach.Attachment, error) {
	if err := RestrictTo(ifi, t.spec); err != nil {
		return nil, err
	}
	if t.prepare != nil {
		if err := t.prepare(target); err != nil {
			return nil, err
		}
	}
	var programs []*ebpf.Program
	for _, name := range t.names {
		t.spec.Programs[name].AttachTarget, t.spec.Programs[name].AttachTo = target.Prog, target.Function
		p, err := t.load(name)
		if err != nil {
			return nil, support.ExplainTracer(err, target.Program)
		}
		defer p.Close() // the kernel keeps it
		programs = append(programs, p)
	}
	return attach.Trace(ifi, target, programs...)
}

// RestrictTo lets the tracing programs of spec, which include bpf/include/traced.h, look at the
// packets of this interface only.
func RestrictTo(ifi xdp.Interface, spec *ebpf.CollectionSpec) error {
	constants, err := xdp.Traced(ifi)
	if err != nil {
		return err
	}
	return attach.Set(spec, constants)
}

// Interface returns the interface as it was at Open.
func (h *attachment) Interface() xdp.Interface { return h.ifi }

// Began returns when counting began, by the clocks of time.Now.
func (h *attachment) Began() time.Time { return h.began }

// Program returns the program that is counted now: the traced one, or our own at the XDP hook.
func (h *attachment) Program() xdp.Program {
	switch {
	case h.traced != nil:
		return h.traced.Program()
	case h.at != nil:
		return h.at.Own
	}
	return h.program
}

// isOwn tells whether the program that counts is, or is within, one of ours that traces no other.
func (h *attachment) isOwn() bool {
	return h.traced == nil && (h.at != nil || h.program == xdp.Program{})
}

// Follow looks whether our programs still count the packets of the interface. If another program
// has replaced the traced one, Follow counts that one from now on: see followed.Follow, of which
// this has the contract. The error is final if a program of ours counts.
func (h *attachment) Follow() (notice string, err error) {
	switch {
	case h.traced != nil:
		return h.traced.Follow()
	case h.at == nil:
		return "", nil
	}
	err = h.at.Check()
	switch {
	case errors.Is(err, xdp.ErrGone):
		return "", gone(h.ifi)
	case err != nil && h.at.How == "":
		return "", fmt.Errorf("somebody has detached %v from %s: start again", h.at.Own, h.ifi.Name)
	case err != nil:
		return "", fmt.Errorf("%w: start again", err)
	}
	return "", nil
}

// Capabilities returns the capabilities, by number (capabilities(7)), that Follow and Close need
// after Open: to find another program by its id and to trace it, and CAP_NET_ADMIN where detaching
// needs it.
func (h *attachment) Capabilities() []int {
	switch {
	case !h.isOwn():
		return []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}
	case h.at != nil && h.at.NeedsNetAdmin:
		return []int{unix.CAP_NET_ADMIN}
	}
	return nil
}

// String tells where and how it counts: "eth0, XDP native", "eth0, sent, tcx", or "eth0, tracing lb
// (id 7)".
func (h *attachment) String() string {
	switch {
	case h.traced != nil:
		return fmt.Sprintf("%s, tracing %v", h.ifi.Name, h.Program())
	case h.at != nil:
		return h.ifi.Name + ", " + h.way
	}
	return h.ifi.Name
}

func (h *attachment) close() error {
	errs := []error{h.at.Close()}
	if h.traced != nil {
		h.traced.watch.Close()
	}
	for _, m := range h.constants {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
