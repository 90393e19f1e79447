package xdp

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// On a real-time kernel (PREEMPT_RT) tasks handle packets. Before Linux 6.18 a lock let only one of
// them run on each CPU (dropped by commit 3253cb49cbad). Since then a program can interrupt another
// program on its CPU, or itself, and both use the same entries of per-CPU maps.

// Alone makes a program of the type XDP or SchedCLS run without interruption on its CPU, if the
// kernel does not ensure that. Programs of other types stay unchanged: see CheckTracing.
func Alone(spec *ebpf.ProgramSpec) error {
	if spec.Type != ebpf.XDP && spec.Type != ebpf.SchedCLS {
		return nil
	}
	kernel, err := realtime()
	if err != nil || kernel == nil || kernel.disable == 0 {
		return err
	}
	main, err := callAlone(spec.Instructions, kernel)
	if err != nil {
		return fmt.Errorf("program %s: %w", spec.Name, err)
	}
	spec.Instructions = main
	return nil
}

// CheckTracing returns a *TracingError if tracing programs miss packets on this kernel: a tracer
// that interrupts itself on a CPU is skipped by the kernel.
func CheckTracing() error {
	kernel, err := realtime()
	if err != nil || kernel == nil || !kernel.preempts {
		return err
	}
	return &TracingError{
		Reason: "on this real-time kernel packets interrupt each other, and tracing programs miss those that come in between",
		Remedy: "use a kernel with CONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y, or one without CONFIG_PREEMPT_RT",
	}
}

// A realtimeKernel describes a real-time kernel.
type realtimeKernel struct {
	disable, enable btf.TypeID // the functions that disable and enable interruption; 0 = Linux before 6.10
	preempts        bool       // whether packets interrupt each other
}

// realtime returns nil if the kernel is not a real-time one.
var realtime = sync.OnceValues(func() (*realtimeKernel, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("ask for the kernel's version: %w", err)
	}
	if !strings.Contains(unix.ByteSliceToString(name.Version[:]), "PREEMPT_RT") {
		return nil, nil
	}
	types, err := KernelTypes().Kernel()
	if err != nil {
		return nil, fmt.Errorf("ask this real-time kernel whether packets interrupt each other: %w", err)
	}
	k := &realtimeKernel{}
	for function, id := range map[string]*btf.TypeID{"bpf_preempt_disable": &k.disable, "bpf_preempt_enable": &k.enable} {
		var f *btf.Func
		err := types.TypeByName(function, &f)
		if errors.Is(err, btf.ErrNotFound) {
			return &realtimeKernel{}, nil // it is older than the change that dropped the lock
		}
		if err == nil {
			*id, err = types.TypeID(f)
		}
		if err != nil {
			return nil, fmt.Errorf("look for %s in this real-time kernel: %w", function, err)
		}
	}
	// This type was added right before the lock became optional (commit fd4e876f59b7). A kernel
	// with it has the lock only if it is configured so.
	var change *btf.Struct
	err = types.TypeByName("tasklet_sync_callback", &change)
	k.preempts = err == nil && !isConfigured(unix.ByteSliceToString(name.Release[:]), "CONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y")
	return k, nil
})

// isConfigured reports whether the kernel's configuration, if installed, has a line.
func isConfigured(release, line string) bool {
	for _, path := range []string{"/boot/config-" + release, "/lib/modules/" + release + "/config"} {
		if text, err := os.ReadFile(path); err == nil {
			return slices.Contains(strings.Split(string(text), "\n"), line)
		}
	}
	return false
}

// callAlone returns a program that calls another one as a function, between the calls that disable
// and enable interruption. All functions become static, because the verifier does not allow calls
// of global ones there.
func callAlone(program asm.Instructions, kernel *realtimeKernel) (asm.Instructions, error) {
	if len(program) == 0 || program[0].Symbol() == "" {
		return nil, errors.New("it does not begin with a function")
	}
	name := program[0].Symbol()
	body := slices.Clone(program)
	for i := range body {
		if f := btf.FuncMetadata(&body[i]); f != nil {
			static := *f
			static.Linkage = btf.StaticFunc
			if i == 0 {
				static.Name = "alone_" + name
			}
			body[i] = btf.WithFuncMetadata(body[i], &static)
		}
	}
	begin := asm.Mov.Reg(asm.R6, asm.R1).WithSymbol(name).WithSource(body[0].Source())
	if f := btf.FuncMetadata(&program[0]); f != nil {
		begin = btf.WithFuncMetadata(begin, f)
	}
	body[0] = body[0].WithSymbol("alone_" + name)
	call := func(id btf.TypeID) asm.Instruction {
		ins := asm.BuiltinFunc(0).Call()
		ins.Src, ins.Constant = asm.PseudoKfuncCall, int64(id)
		return ins
	}
	main := asm.Instructions{
		begin, // R6 has the context, and then the verdict
		call(kernel.disable),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Call.Label("alone_" + name),
		asm.Mov.Reg(asm.R6, asm.R0),
		call(kernel.enable),
		asm.Mov.Reg(asm.R0, asm.R6),
		asm.Return(),
	}
	return append(main, body...), nil
}
