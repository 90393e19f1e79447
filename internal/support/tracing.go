package support

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// trialName is the name of programs that are loaded only to see whether the kernel accepts them.
const trialName = "xdpcap_probe"

// tracers are the kinds of program that trace an XDP program.
var tracers = []ebpf.AttachType{ebpf.AttachTraceFEntry, ebpf.AttachTraceFExit}

// probeTracing tries to load fentry and fexit programs, and to attach them, which makes the kernel
// build trampolines. target is a program of ours that no interface runs; nil = it could not be
// loaded.
func probeTracing(target *ebpf.Program) Checks {
	const fentry, fexit, trampolines = "fentry", "fexit", "trampolines"
	each := func(check func(key string) Check) Checks {
		return Checks{check(fentry), check(fexit), check(trampolines)}
	}
	if missing := missingCapabilities(heldOrNone()); len(missing) > 0 {
		return each(func(key string) Check { return notTried(key, missing) })
	}
	if err := xdp.CheckTracing(); err != nil {
		return each(func(key string) Check { return tracingCheck(key, err) })
	}
	untried := func(key string) Check { return unknown(key, "no program to try it with could be loaded") }
	if target == nil {
		return each(untried)
	}
	checks := Checks{
		tracingCheck(fentry, explainTracing(tryLoad(target, trialName, ebpf.AttachTraceFEntry))),
		tracingCheck(fexit, explainTracing(tryLoad(target, trialName, ebpf.AttachTraceFExit))),
		untried(trampolines),
	}
	if checks[0].Answer == Yes && checks[1].Answer == Yes {
		checks[2] = tracingCheck(trampolines, explainTracing(tryAttach(target, trialName)))
	}
	return checks
}

// TryProgram checks whether an XDP program of another process can be traced. The error is an
// *xdp.TracingError, or an xdp.ErrNoSuchProgram. It loads tracers but does not attach them, so the
// program stays unchanged.
func TryProgram(id uint32) error {
	target, err := xdp.OpenTarget(id)
	if err != nil {
		return err
	}
	defer target.Prog.Close()
	for _, at := range tracers {
		if err := tryLoad(target.Prog, target.Function, at); err != nil {
			return explainTracing(err)
		}
	}
	return nil
}

// tracingCheck turns the result of a trial into a check. If a cause is known, its error is an
// *xdp.TracingError.
func tracingCheck(key string, err error) Check {
	if err == nil {
		return yes(key)
	}
	var e *xdp.TracingError
	if !errors.As(err, &e) {
		return no(key, err.Error(), "")
	}
	return Check{Key: key, Answer: No, Reason: e.Reason, Remedy: e.Remedy, Kind: e.Kind}
}

// loadTarget loads an XDP program with BTF that passes every packet. It is not attached.
func loadTarget(flags uint32) (*ebpf.Program, error) {
	main := &btf.Func{
		Name:    trialName,
		Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md"}}}},
		},
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:  trialName,
		Type:  ebpf.XDP,
		Flags: flags,
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, int32(xdp.Pass)), main),
			asm.Return(),
		},
		License: "Dual BSD/GPL",
	})
}

// loadTracer loads an empty fentry or fexit program.
func loadTracer(target *ebpf.Program, function string, at ebpf.AttachType) (*ebpf.Program, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         trialName,
		Type:         ebpf.Tracing,
		AttachType:   at,
		AttachTo:     function,
		AttachTarget: target,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", at, err)
	}
	return prog, nil
}

func tryLoad(target *ebpf.Program, function string, at ebpf.AttachType) error {
	prog, err := loadTracer(target, function, at)
	if err != nil {
		return err
	}
	return prog.Close()
}

// tryAttach attaches each kind of tracer and detaches it again, because the kernel builds a
// trampoline only then.
func tryAttach(target *ebpf.Program, function string) error {
	for _, at := range tracers {
		prog, err := loadTracer(target, function, at)
		if err != nil {
			return err
		}
		l, err := xdp.AttachTracer(prog)
		prog.Close()
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("detach %s: %w", at, err)
		}
	}
	return nil
}
