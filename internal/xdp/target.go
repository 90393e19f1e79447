package xdp

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
)

// A Target is a running program that can be traced, or a function of it. Close Prog when the
// tracers are loaded. The name of a function's target is PROGRAM/FUNCTION.
type Target struct {
	Program
	Prog     *ebpf.Program
	Function string // the name that tracers attach to
	Part     string // the same if it is not the program's main function; "" = the whole program
	Returns  packet.VerdictKind

	// At is the program attached to the interface where the target runs: the target itself, or its
	// dispatcher. It is zero if the target was chosen by its id and runs elsewhere.
	At Program

	AtTC bool // it is a program at tc, whose packets are socket buffers
}

// Targets opens the programs that the selectors choose among the programs of an interface: the
// attached program, or the components of a libxdp dispatcher. A selector is a program's name, an
// id, or "all", with or without a function: see SplitSelector. An id may be that of any XDP
// program, such as one in a devmap or cpumap. Without selectors Targets opens the only program that
// runs there. The error is an ErrNoProgram, ErrSeveralPrograms, ErrOtherProgram,
// ErrAmbiguousProgram or ErrNoSuchProgram if another choice helps, and a *TracingError if the
// program cannot be traced.
func Targets(ifi Interface, selectors []string) ([]Target, error) {
	chosen, err := chooseRunning(ifi, selectors)
	if err != nil {
		return nil, err
	}
	var targets []Target
	for _, p := range chosen {
		t, err := openTarget(p.ID, p.Function, false)
		if err != nil {
			for _, t := range targets {
				t.Prog.Close()
			}
			return nil, err
		}
		t.At = runsAt(ifi, p.Program)
		targets = append(targets, t)
	}
	return targets, nil
}

// OneProgram chooses one of the programs of an interface. Without a selector that is the attached
// program, even if it is a libxdp dispatcher: its verdict is that of all its components. A single
// component replaces the whole dispatcher; then OneProgram returns the component. With a selector
// it is the program that Targets opens; several are an ErrAmbiguousProgram.
func OneProgram(ifi Interface, selector string) (Program, error) {
	if selector == "" && len(ifi.Programs) == 1 {
		if running, err := Running(ifi); err == nil && len(running) == 1 && takesPlaceOf(ifi.Programs[0], running[0]) {
			return running[0], nil
		}
		return ifi.Programs[0], nil
	}
	var selectors []string
	if selector != "" {
		selectors = []string{selector}
	}
	if program, function := SplitSelector(selector); function != "" {
		return Program{}, fmt.Errorf("program %s: only captures can be of a function: use program %s", selector, program)
	}
	chosen, err := chooseRunning(ifi, selectors)
	if err != nil {
		return Program{}, err
	}
	if len(chosen) > 1 {
		var programs []Program
		for _, c := range chosen {
			programs = append(programs, c.Program)
		}
		return Program{}, message.Errorf(ErrAmbiguousProgram, "program %s: only one can be chosen here: %s", selector, ListPrograms(programs))
	}
	return chosen[0].Program, nil
}

func chooseRunning(ifi Interface, selectors []string) ([]chosenProgram, error) {
	programs, err := Running(ifi)
	if err != nil {
		return nil, err
	}
	return choose(ifi.Name, programs, selectors)
}

// runsAt returns the program that is attached to the interface if it is p or calls p, otherwise the
// zero Program.
func runsAt(ifi Interface, p Program) Program {
	for _, attached := range ifi.Programs {
		if behind, _ := isBehind(attached.ID, p); behind || attached.ID == p.ID {
			return attached
		}
	}
	return Program{}
}

// OpenTarget opens an XDP program by its id for tracing. The error is an ErrNoSuchProgram, or a
// *TracingError if the program cannot be traced.
func OpenTarget(id uint32) (Target, error) { return openTarget(id, "", false) }

// OpenFunction opens a function of an XDP program, as OpenTarget opens the whole program.
func OpenFunction(id uint32, function string) (Target, error) { return openTarget(id, function, false) }

// OpenTCTarget opens a program at tc, or a function of it, as OpenTarget opens an XDP program.
func OpenTCTarget(id uint32, function string) (Target, error) { return openTarget(id, function, true) }

// openTarget is OpenTarget for a function of the program; "" = the whole program.
func openTarget(id uint32, function string, atTC bool) (Target, error) {
	prog, err := OpenProgram(id)
	if err != nil {
		return Target{}, explainOpen(id, err)
	}
	t, err := newTarget(id, prog, function, atTC)
	if err != nil {
		prog.Close()
		return Target{}, err
	}
	return t, nil
}

// newTarget checks the conditions for tracing: the program must be JIT-compiled and have BTF, which
// describes the function that a tracer attaches to.
func newTarget(id uint32, prog *ebpf.Program, function string, atTC bool) (Target, error) {
	info, err := prog.Info()
	if err != nil {
		return Target{}, explainOpen(id, err)
	}
	t := Target{Program: Program{ID: id, Name: info.Name}, Prog: prog, AtTC: atTC}
	kind := "XDP program"
	if atTC {
		kind, t.Returns = "program", packet.TCVerdict
	}
	if err := CheckTracing(); err != nil {
		return t, err
	}
	// The components of a libxdp dispatcher are programs of the type Extension.
	if !atTC && info.Type != ebpf.XDP && info.Type != ebpf.Extension {
		return t, fmt.Errorf("BPF program %s is not an XDP program but %s", t.Program, info.Type)
	}
	main, err := mainFunction(info)
	if err != nil {
		return t, &TracingError{
			Reason: fmt.Sprintf("%s %s has no BTF, without which nothing can be attached to it", kind, t.Program),
			Remedy: "compile it with clang -g, and load it without stripping .BTF",
			Err:    err,
		}
	}
	t.Function = main.Name
	if function != "" {
		if err := t.enter(function, info); err != nil {
			return t, err
		}
	} else if !takesPacket(main, contextOf(info.Type)) {
		return t, &TracingError{
			Reason: fmt.Sprintf("the argument of %s %s is not declared as struct %s *, which tracers need to see packets", kind, t.Program, contextOf(info.Type)),
			Remedy: "declare it so, and load it again",
		}
	}
	if by, ok := replacementOf(t, info); ok {
		return t, &TracingError{
			Reason: fmt.Sprintf("%s %s does not run itself: program %s has taken its place (freplace)", kind, t.Program, by),
			Kind:   ErrReplaced,
		}
	}
	// The kernel reports the size to every process that may open programs by their ids.
	if size, err := info.JitedSize(); err != nil || size == 0 {
		return t, &TracingError{
			Reason: fmt.Sprintf("%s %s is not compiled by the kernel's JIT", kind, t.Program),
			Remedy: "sysctl net.core.bpf_jit_enable=1, then load it again; a program on the network card has no remedy",
		}
	}
	return t, nil
}

// mainFunction returns the BTF of the function in which a program begins. Its name may differ from
// the program's name.
func mainFunction(info *ebpf.ProgramInfo) (*btf.Func, error) {
	funcs, err := info.FuncInfos()
	if err != nil {
		return nil, err
	}
	for _, f := range funcs {
		if f.Offset == 0 {
			return f.Func, nil
		}
	}
	return nil, btf.ErrNotFound
}

// takesPacket reports whether the kernel recognizes the function's first argument as the context of
// its program, by the name of its type. Tracers then get a struct xdp_buff for struct xdp_md; any
// other argument is a number to them.
func takesPacket(f *btf.Func, context string) bool {
	proto, ok := f.Type.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return false
	}
	pointer, ok := btf.As[*btf.Pointer](proto.Params[0].Type)
	if !ok {
		return false
	}
	pointed, ok := btf.As[*btf.Struct](pointer.Target)
	return ok && pointed.Name == context
}

// replacementOf returns the program that has replaced a target's function. ok is false if there is
// none, or if this process may not list links.
func replacementOf(t Target, info *ebpf.ProgramInfo) (Program, bool) {
	found, err := components(t.Program)
	if err != nil || len(found) == 0 {
		return Program{}, false
	}
	id, ok := info.BTFID()
	if !ok {
		return Program{}, false
	}
	handle, err := btf.NewHandleFromID(id)
	if err != nil {
		return Program{}, false
	}
	defer handle.Close()
	types, err := handle.Spec(nil)
	if err != nil {
		return Program{}, false
	}
	for _, c := range found {
		if f, err := types.TypeByID(btf.TypeID(c.function)); err == nil && f.TypeName() == t.Function {
			return c.Program, true
		}
	}
	return Program{}, false
}

// takesPlaceOf reports whether a component has replaced the main function of a dispatcher. It is
// false if this process may not list links.
func takesPlaceOf(dispatcher, component Program) bool {
	info, err := programInfo(dispatcher.ID)
	if err != nil {
		return false
	}
	main, err := mainFunction(info)
	if err != nil {
		return false
	}
	by, ok := replacementOf(Target{Program: dispatcher, Function: main.Name}, info)
	return ok && by == component
}

// explainOpen explains why a program could not be opened.
func explainOpen(id uint32, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &TracingError{
			Reason: fmt.Sprintf("the kernel shows BPF program %d to CAP_SYS_ADMIN only", id),
			Remedy: "run it as root (sudo), or add cap_sys_admin to the binary",
			Err:    err,
		}
	case errors.Is(err, os.ErrNotExist):
		return message.Errorf(ErrNoSuchProgram, "there is no BPF program with id %d", id)
	}
	return &TracingError{Reason: fmt.Sprintf("open BPF program %d: %v", id, err), Err: err}
}
