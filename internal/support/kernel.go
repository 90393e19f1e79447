package support

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

const (
	kernelBTF = "/sys/kernel/btf/vmlinux"
	remedyBTF = "use a kernel with CONFIG_DEBUG_INFO_BTF=y"
)

// A Kernel describes the features of the running kernel. Each check is a trial.
type Kernel struct {
	Release string `json:"release"`
	Machine string `json:"machine"`

	// Keys: btf, jit, xdp, xdp_frags, isa_v3, perf_event_array, perf_event, shared_rings, lru_hash,
	// prog_array, xdp_helpers, fentry, fexit, trampolines, tp_btf, tracing_helpers, egress.
	Checks Checks `json:"checks"`
}

// xdpHelpers are the helper functions that the XDP programs in bpf/*.c call.
var xdpHelpers = []helper{
	{asm.FnPerfEventOutput, "perf_event_output", "4.8"},
	{asm.FnXdpGetBuffLen, "xdp_get_buff_len", "5.18"},
	{asm.FnXdpLoadBytes, "xdp_load_bytes", "5.18"},
	{asm.FnKtimeGetNs, "ktime_get_ns", "4.8"},
	{asm.FnGetPrandomU32, "get_prandom_u32", "4.8"},
}

// tracingHelpers are the helper functions that the fentry, fexit and tp_btf programs in bpf/*.c
// call.
var tracingHelpers = []helper{
	{asm.FnXdpOutput, "xdp_output", "5.6"},
	{asm.FnXdpGetBuffLen, "xdp_get_buff_len", "5.18"},
	{asm.FnProbeReadKernel, "probe_read_kernel", "5.5"},
}

type helper struct {
	fn    asm.BuiltinFunc
	name  string
	since string // the first Linux version that has it
}

func probeKernel() (Kernel, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Kernel{}, fmt.Errorf("ask for the kernel's version: %w", err)
	}
	k := Kernel{
		Release: unix.ByteSliceToString(name.Release[:]),
		Machine: unix.ByteSliceToString(name.Machine[:]),
	}
	target, err := loadTarget(0)
	if err == nil {
		defer target.Close()
	}
	frags, fragsErr := loadTarget(unix.BPF_F_XDP_HAS_FRAGS)
	if fragsErr == nil {
		frags.Close()
	}
	tracing := probeTracing(target)
	k.Checks = Checks{
		checkBTF(),
		checkJIT(target),
		checkLoad("xdp", "XDP programs", err, "CONFIG_BPF_SYSCALL=y"),
		checkLoad("xdp_frags", "XDP programs for packets in several buffers", fragsErr, "Linux 5.18 or newer"),
		checkLoad("isa_v3", "BPF instruction set v3", features.HaveV3ISA(), "Linux 5.1 or newer"),
		checkLoad("perf_event_array", "maps for perf rings", features.HaveMapType(ebpf.PerfEventArray), "CONFIG_PERF_EVENTS=y"),
		probePerf(),
		checkLoad("shared_rings", "maps in shared memory", trySharedRings(), "Linux 5.8 or newer"),
		checkLoad("lru_hash", "maps that forget (LRU)", features.HaveMapType(ebpf.LRUHash), "Linux 4.10 or newer"),
		checkLoad("prog_array", "maps of programs", features.HaveMapType(ebpf.ProgramArray), "Linux 4.2 or newer"),
		checkHelpers("xdp_helpers", xdpHelpers, func(fn asm.BuiltinFunc) error {
			return features.HaveProgramHelper(ebpf.XDP, fn)
		}),
		tracing[0], tracing[1], tracing[2],
		checkLoad("tp_btf", "programs at tracepoints with BTF", loadTracepoint(asm.Mov.Imm(asm.R0, 0)), "CONFIG_DEBUG_INFO_BTF=y"),
		checkHelpers("tracing_helpers", tracingHelpers, haveTracingHelper),
		checkEgress(),
	}
	return k, nil
}

// trySharedRings creates the two kinds of map that share memory with a process.
func trySharedRings() error {
	page := uint32(os.Getpagesize())
	for _, spec := range []*ebpf.MapSpec{
		{Type: ebpf.Array, KeySize: 4, ValueSize: page, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE},
		{Type: ebpf.RingBuf, MaxEntries: page},
	} {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return err
		}
		m.Close()
	}
	return nil
}

func checkBTF() Check {
	if !exists(kernelBTF) {
		return no("btf", "there is no "+kernelBTF, remedyBTF)
	}
	return yes("btf")
}

// checkJIT checks whether the kernel compiled target, a loaded program, or nil. If the kernel does
// not show that, it reads the setting, which only root may do.
func checkJIT(target *ebpf.Program) Check {
	answer := Unknown
	if target != nil {
		if info, err := target.Info(); err == nil {
			answer = jited(info)
		}
	}
	if answer == Unknown {
		switch set, err := os.ReadFile("/proc/sys/net/core/bpf_jit_enable"); {
		case err == nil && strings.HasPrefix(string(set), "0"):
			answer = No
		case err == nil:
			answer = Yes
		}
	}
	switch answer {
	case No:
		return no("jit", "BPF programs are interpreted, which is slow; they can neither be traced nor call the kernel's functions",
			turnJITOn+", then load the programs again")
	case Unknown:
		return unknown("jit", "only a program that is loaded tells")
	}
	return yes("jit")
}

// jited reports whether a program is compiled. It returns Unknown if the kernel does not show the
// program's code to this process.
func jited(info *ebpf.ProgramInfo) Answer {
	size, err := info.JitedSize()
	switch {
	case err == nil && size > 0:
		return Yes
	case has(heldOrNone(), unix.CAP_SYS_ADMIN), has(heldOrNone(), unix.CAP_BPF):
		return No
	}
	return Unknown
}

// checkLoad turns the result of loading a program or map into a check.
func checkLoad(key, what string, err error, needs string) Check {
	return loadCheck(key, what, err, needs, missingCapabilities(heldOrNone()))
}

// loadCheck is checkLoad for a process that lacks the capabilities in missing. Without them, a
// refusal does not mean that the kernel lacks the feature.
func loadCheck(key, what string, err error, needs string, missing []string) Check {
	switch {
	case err == nil:
		return yes(key)
	case len(missing) > 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		return notTried(key, missing)
	case errors.Is(err, unix.EPERM):
		refused := possibleRefusal()
		return no(key, "this kernel refuses "+what+" ("+unix.EPERM.Error()+") "+refused.why, refused.remedy("bpf"))
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG),
		errors.Is(err, btf.ErrNotFound):
		return no(key, "this kernel has no "+what, "it takes "+needs)
	}
	return no(key, what+": "+err.Error(), "it takes "+needs)
}

func notTried(key string, missing []string) Check {
	return unknown(key, "not tried: missing "+strings.Join(missing, ", "))
}

// checkHelpers returns Yes with the names of all helpers, or the check of the first missing one.
func checkHelpers(key string, helpers []helper, have func(asm.BuiltinFunc) error) Check {
	var names []string
	for _, h := range helpers {
		if c := checkLoad(key, "helper bpf_"+h.name+" in these programs", have(h.fn), "Linux "+h.since+" or newer"); c.Answer != Yes {
			return c
		}
		names = append(names, h.name)
	}
	return Check{Key: key, Answer: Yes, Reason: strings.Join(names, ", ")}
}

// loadTracepoint loads a program for a tracepoint (tp_btf), and unloads it. The program begins with
// ins.
func loadTracepoint(ins asm.Instruction) error {
	prog, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name:         trialName,
		Type:         ebpf.Tracing,
		AttachType:   ebpf.AttachTraceRawTp,
		AttachTo:     "xdp_exception",
		Instructions: asm.Instructions{ins, asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "Dual BSD/GPL",
	}, ebpf.ProgramOptions{LogLevel: ebpf.LogLevelBranch})
	if err != nil {
		return err
	}
	return prog.Close()
}

// haveTracingHelper loads a tracing program that calls the helper without arguments. The verifier
// refuses that; from its message haveTracingHelper derives whether the helper is unknown or only
// the arguments are missing. The package cilium/ebpf/features does not try this type of program.
func haveTracingHelper(fn asm.BuiltinFunc) error {
	err := loadTracepoint(fn.Call())
	var verifier *ebpf.VerifierError
	if !errors.As(err, &verifier) {
		return err
	}
	for _, line := range slices.Backward(verifier.Log) {
		if strings.Contains(line, "invalid func") || strings.Contains(line, "unknown func") ||
			strings.Contains(line, "cannot use helper") {
			return ebpf.ErrNotSupported
		}
	}
	if errors.Is(err, unix.EACCES) { // the arguments are missing: the kernel has the helper
		return nil
	}
	return err
}
