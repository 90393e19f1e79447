package xdp

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// errENOTSUPP is the kernel's internal ENOTSUPP, which the bpf system call lets out.
const errENOTSUPP = unix.Errno(524)

// A TracingError says why an XDP program cannot be traced with fentry and fexit programs, in words for
// the user. It wraps what the kernel said, where the kernel was asked.
type TracingError struct {
	Reason string
	Remedy string // "" = there is none on this kernel
	err    error
}

func (e *TracingError) Error() string {
	if e.Remedy == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Remedy
}

func (e *TracingError) Unwrap() error { return e.err }

// CheckTracing tries whether fentry and fexit programs can be loaded and attached: to an XDP program
// of its own that no interface runs. It returns nil or a *TracingError, and leaves nothing behind.
func CheckTracing() error {
	target, err := loadTarget(0)
	if err != nil {
		return explainTracing(err)
	}
	defer target.Close()
	for _, at := range traceTypes {
		if err := tryTrace(target, targetName, at, true); err != nil {
			return explainTracing(err)
		}
	}
	return nil
}

var traceTypes = []ebpf.AttachType{ebpf.AttachTraceFEntry, ebpf.AttachTraceFExit}

// CheckTarget tells whether an XDP program that somebody else loaded can be traced: nil, or an
// error that is a *TracingError unless there is no such program. It loads a tracing program for it, but
// attaches none: the target does not notice.
func CheckTarget(id uint32) error {
	target, err := openTarget(id)
	if err != nil {
		return err
	}
	defer target.Prog.Close()
	for _, at := range traceTypes {
		if err := tryTrace(target.Prog, target.Function, at, false); err != nil {
			return explainTracing(err)
		}
	}
	return nil
}

// explainTarget is for a target that could not even be looked at.
func explainTarget(id uint32, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &TracingError{
			Reason: fmt.Sprintf("the kernel shows BPF program %d to CAP_SYS_ADMIN only", id),
			Remedy: "run it as root (sudo), or add cap_sys_admin to the binary",
			err:    err,
		}
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no BPF program with id %d: see xdpcap interfaces, or bpftool prog", id)
	}
	return &TracingError{Reason: fmt.Sprintf("open BPF program %d: %v", id, err), err: err}
}

const targetName = "xdpcap_probe"

// loadTarget loads an XDP program with BTF that passes every packet. Nothing runs it.
func loadTarget(flags uint32) (*ebpf.Program, error) {
	main := &btf.Func{
		Name:    targetName,
		Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md"}}}},
		},
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:  targetName,
		Type:  ebpf.XDP,
		Flags: flags,
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, int32(Pass)), main),
			asm.Return(),
		},
		License: "Dual BSD/GPL",
	})
}

func loadTrace(target *ebpf.Program, function string, at ebpf.AttachType) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         targetName,
		Type:         ebpf.Tracing,
		AttachType:   at,
		AttachTo:     function,
		AttachTarget: target,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "Dual BSD/GPL",
	})
}

// tryTrace attaches only to a target of ours: that alone asks for the trampoline.
func tryTrace(target *ebpf.Program, function string, at ebpf.AttachType, attach bool) error {
	prog, err := loadTrace(target, function, at)
	if err != nil {
		return fmt.Errorf("load %s: %w", at, err)
	}
	defer prog.Close()
	if !attach {
		return nil
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return fmt.Errorf("attach %s: %w", at, err)
	}
	return l.Close()
}

// explainTracing finds the cause behind an errno of loading or attaching a tracing program.
func explainTracing(err error) error {
	if err == nil {
		return nil
	}
	e := &TracingError{err: err}
	missing := missingForTracing()
	var verifier *ebpf.VerifierError
	switch {
	case len(missing) > 0 && errors.Is(err, unix.EPERM):
		e.Reason = "missing privileges: " + strings.Join(missing, ", ")
		e.Remedy = "run it as root (sudo)"
	case !exists(kernelBTF):
		e.Reason = "this kernel has no BTF (" + kernelBTF + ")"
		e.Remedy = "use a kernel with CONFIG_DEBUG_INFO_BTF=y"
	case errors.Is(err, unix.EPERM):
		e.Reason = "this kernel refuses fentry and fexit programs (" + unix.EPERM.Error() + ") " + refuser()
		e.Remedy = "use another kernel; a capture from --hook works without them"
	case errors.Is(err, unix.EBUSY):
		e.Reason = "another program has taken its place (freplace)"
		e.Remedy = "trace that one"
	case errors.Is(err, unix.E2BIG) && !errors.As(err, &verifier):
		e.Reason = "it has as many tracers as the kernel takes"
		e.Remedy = "end another one"
	case errors.Is(err, errENOTSUPP), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, ebpf.ErrNotSupported):
		e.Reason = "this kernel has no BPF trampolines on this machine's architecture"
		e.Remedy = "use a newer kernel: x86-64 has them since 5.5, arm64 since 6.0"
	case errors.As(err, &verifier) && strings.Contains(strings.Join(verifier.Log, "\n"), "JITed"):
		e.Reason = "the kernel's BPF JIT is off"
		e.Remedy = "sysctl net.core.bpf_jit_enable=1, then load the program again"
	default:
		e.Reason = fmt.Sprintf("the kernel refuses fentry and fexit programs: %v", err)
	}
	return e
}

// refuser names who may be behind an EPERM although the capabilities are held.
func refuser() string {
	switch {
	case inUserNamespace():
		return "because capabilities of a user namespace (a container's root) do not count"
	case lockedDown():
		return "because it is locked down (/sys/kernel/security/lockdown)"
	case seccompFilter():
		return "despite the capabilities: a seccomp filter may do it"
	}
	return "despite the capabilities"
}

func inUserNamespace() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295"
}

func lockedDown() bool {
	mode, err := os.ReadFile("/sys/kernel/security/lockdown")
	return err == nil && !strings.Contains(string(mode), "[none]")
}

func seccompFilter() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
