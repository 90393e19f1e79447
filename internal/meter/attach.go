package meter

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// lookUp finds an interface on which packets can be counted.
func lookUp(name string) (xdp.Interface, error) {
	ifi, err := xdp.InterfaceByName(name)
	if err != nil {
		return ifi, err
	}
	if ifi.Type != "ether" && ifi.Type != "loopback" {
		return ifi, fmt.Errorf("%s is not an Ethernet interface (its link type is %q): choose another", ifi.Name, ifi.Type)
	}
	if !ifi.Up {
		return ifi, fmt.Errorf("%s is down: bring it up first, ip link set dev %s up", ifi.Name, ifi.Name)
	}
	return ifi, nil
}

// A hook is one of our programs at an interface: attached itself, or to the program that is.
type hook struct {
	ifi     xdp.Interface
	program xdp.Program   // what runs on the interface
	traced  bool          // that one is not ours
	mode    xdp.Mode      // what it runs in
	target  *ebpf.Program // nil unless traced
	prog    *ebpf.Program
	link    link.Link // A link that is not held is closed by the garbage collector.
}

// attach runs prog on the interface.
func attach(ifi xdp.Interface, prog *ebpf.Program, mode xdp.Mode) (*hook, error) {
	l, got, err := xdp.Attach(prog, ifi, mode)
	if err != nil {
		return nil, err
	}
	h := &hook{ifi: ifi, mode: got, prog: prog, link: l}
	info, err := prog.Info()
	if err != nil {
		h.link.Close()
		return nil, fmt.Errorf("ask for the counting program's id: %w", err)
	}
	id, _ := info.ID()
	h.program = xdp.Program{ID: uint32(id), Name: info.Name}
	return h, nil
}

// trace has a tracing program of spec run at the entry or exit of the interface's XDP program. load
// loads it once the specification names its target.
func trace(ifi xdp.Interface, spec *ebpf.ProgramSpec, load func() (*ebpf.Program, error)) (*hook, error) {
	program := ifi.Programs[0]
	target, err := ebpf.NewProgramFromID(ebpf.ProgramID(program.ID))
	if err != nil {
		return nil, fmt.Errorf("open %v on %s: %w", program, ifi.Name, err)
	}
	h := &hook{ifi: ifi, program: program, traced: true, mode: ifi.Mode, target: target}
	if err := h.trace(spec, load); err != nil {
		h.prog.Close() // takes nil
		target.Close()
		return nil, err
	}
	return h, nil
}

func (h *hook) trace(spec *ebpf.ProgramSpec, load func() (*ebpf.Program, error)) (err error) {
	if spec.AttachTo, err = entryName(h.target); err != nil {
		return fmt.Errorf("%s already runs XDP program %v, and that cannot be traced: %w; compile it with "+
			"clang -g, or detach it", h.ifi.Name, h.program, err)
	}
	spec.AttachTarget = h.target
	if h.prog, err = load(); err != nil {
		return untraceable(h.ifi, spec, err)
	}
	if h.link, err = link.AttachTracing(link.TracingOptions{Program: h.prog}); err != nil {
		return untraceable(h.ifi, spec, err)
	}
	return nil
}

// entryName is the name that BTF has for a program's first function: the kernel's own name for the
// program may be cut, or another one.
func entryName(prog *ebpf.Program) (string, error) {
	info, err := prog.Info()
	if err != nil {
		return "", err
	}
	funcs, err := info.FuncInfos()
	if err != nil {
		return "", fmt.Errorf("it has no BTF (%w)", err)
	}
	for _, f := range funcs {
		if f.Offset == 0 {
			return f.Func.Name, nil
		}
	}
	return "", errors.New("it has no BTF")
}

// errNotSupported is ENOTSUPP, which the kernel keeps for itself but for slips like this one.
const errNotSupported = unix.Errno(524)

func untraceable(ifi xdp.Interface, spec *ebpf.ProgramSpec, err error) error {
	kind := "fexit"
	if spec.AttachType == ebpf.AttachTraceFEntry {
		kind = "fentry"
	}
	tried := fmt.Sprintf("%s already runs XDP program %v, and %s on it", ifi.Name, ifi.Programs[0], kind)
	const wayOut = "detach that program, and xdpcap brings one of its own"
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s is refused (%w): this kernel or its lockdown does not allow fentry and fexit; %s",
			tried, unix.EPERM, wayOut)
	case errors.Is(err, errNotSupported), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s is not possible on this kernel: it needs BPF trampolines and Linux 5.18: %w; %s", tried, err, wayOut)
	}
	return fmt.Errorf("%s: %w; %s", tried, err, wayOut)
}

// check returns an error once packets are not counted any more: the program has left the interface, or
// the interface the namespace.
func (h *hook) check() error {
	now, err := xdp.InterfaceByName(h.ifi.Name)
	if err != nil {
		return err
	}
	if now.Index != h.ifi.Index || len(now.Programs) == 0 || now.Programs[0].ID != h.program.ID {
		return fmt.Errorf("%v has left %s, and nothing is counted any more: start again", h.program, h.ifi.Name)
	}
	return nil
}

// String says where it counts, and how.
func (h *hook) String() string {
	if h.traced {
		return fmt.Sprintf("%s, tracing %v", h.ifi.Name, h.program)
	}
	return fmt.Sprintf("%s, XDP %v", h.ifi.Name, h.mode)
}

func (h *hook) close() error {
	return errors.Join(h.link.Close(), h.prog.Close(), h.target.Close())
}
