package xdp

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

const kernelBTF = "/sys/kernel/btf/vmlinux"

// A Kernel is what the running kernel can do, by trying it.
type Kernel struct {
	Release string `json:"release"`
	Machine string `json:"machine"`

	// Keys: btf, jit, xdp, xdp_frags, isa_v3, perf_event_array, lru_hash, prog_array, xdp_helpers, fentry,
	// fexit, trampolines, tp_btf, tracing_helpers.
	Checks Checks `json:"checks"`
}

// xdpHelpers are those of bpf/*.c in XDP programs, with the kernel that brought the younger ones.
var xdpHelpers = []helper{
	{asm.FnPerfEventOutput, "perf_event_output", "4.8"},
	{asm.FnXdpGetBuffLen, "xdp_get_buff_len", "5.18"},
	{asm.FnXdpLoadBytes, "xdp_load_bytes", "5.18"},
	{asm.FnKtimeGetNs, "ktime_get_ns", "4.8"},
	{asm.FnGetPrandomU32, "get_prandom_u32", "4.8"},
}

// tracingHelpers are those in fentry, fexit and tp_btf programs.
var tracingHelpers = []helper{
	{asm.FnXdpOutput, "xdp_output", "5.6"},
	{asm.FnXdpGetBuffLen, "xdp_get_buff_len", "5.18"},
	{asm.FnProbeReadKernel, "probe_read_kernel", "5.5"},
}

type helper struct {
	fn    asm.BuiltinFunc
	name  string
	since string
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
	if err != nil {
		target = nil
	}
	tracing := checkTracing(target)
	k.Checks = Checks{
		checkBTF(),
		checkJIT(target),
		checkLoad("xdp", "XDP programs", err, "CONFIG_BPF_SYSCALL=y"),
		checkLoad("xdp_frags", "XDP programs for packets in several buffers", fragsErr, "Linux 5.18 or newer"),
		checkLoad("isa_v3", "BPF instruction set v3", features.HaveV3ISA(), "Linux 5.1 or newer"),
		checkLoad("perf_event_array", "maps for perf rings", features.HaveMapType(ebpf.PerfEventArray), "CONFIG_PERF_EVENTS=y"),
		checkLoad("lru_hash", "maps that forget (LRU)", features.HaveMapType(ebpf.LRUHash), "Linux 4.10 or newer"),
		checkLoad("prog_array", "maps of programs", features.HaveMapType(ebpf.ProgramArray), "Linux 4.2 or newer"),
		checkHelpers("xdp_helpers", xdpHelpers, func(fn asm.BuiltinFunc) error {
			return features.HaveProgramHelper(ebpf.XDP, fn)
		}),
		tracing[0], tracing[1], tracing[2],
		checkLoad("tp_btf", "programs at tracepoints with BTF", loadTracepoint(asm.Mov.Imm(asm.R0, 0)), "CONFIG_DEBUG_INFO_BTF=y"),
		checkHelpers("tracing_helpers", tracingHelpers, haveTracingHelper),
	}
	return k, nil
}

func checkBTF() Check {
	if !exists(kernelBTF) {
		return Check{"btf", No, "there is no " + kernelBTF, "use a kernel with CONFIG_DEBUG_INFO_BTF=y"}
	}
	return Check{Key: "btf", Answer: Yes}
}

// checkJIT looks at a program that was loaded; without one, at the setting, which only root may read.
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
		return Check{"jit", No, "BPF programs are interpreted, which is slow and cannot be traced",
			"sysctl net.core.bpf_jit_enable=1, then load the programs again"}
	case Unknown:
		return Check{"jit", Unknown, "only a program that is loaded tells", ""}
	}
	return Check{Key: "jit", Answer: Yes}
}

// jited is Unknown where the kernel hides the program's code from this process.
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

func heldOrNone() uint64 {
	held, err := heldCapabilities()
	if err != nil {
		return 0
	}
	return held
}

// checkLoad turns the result of a load into words. A refusal without the capabilities tells nothing.
func checkLoad(key, what string, err error, needs string) Check {
	switch missing := missingCapabilities(heldOrNone()); {
	case err == nil:
		return Check{Key: key, Answer: Yes}
	case len(missing) > 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		return notTried(key, missing)
	case errors.Is(err, unix.EPERM):
		return Check{key, No, "this kernel refuses " + what + " (" + unix.EPERM.Error() + ") " + refuser(), ""}
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG),
		errors.Is(err, btf.ErrNotFound):
		return Check{key, No, "this kernel has no " + what, "it takes " + needs}
	}
	return Check{key, No, what + ": " + err.Error(), "it takes " + needs}
}

func notTried(key string, missing []string) Check {
	return Check{key, Unknown, "not tried: missing " + strings.Join(missing, ", "), ""}
}

// checkTracing tries to load fentry and fexit programs, and to attach them, for which the kernel makes
// trampolines. The target is nil where XDP programs do not load.
func checkTracing(target *ebpf.Program) Checks {
	const fentry, fexit, trampolines = "fentry", "fexit", "trampolines"
	missing := missingCapabilities(heldOrNone())
	if len(missing) > 0 {
		return Checks{notTried(fentry, missing), notTried(fexit, missing), notTried(trampolines, missing)}
	}
	const untried = "there is no program to try it with"
	if target == nil {
		return Checks{{fentry, Unknown, untried, ""}, {fexit, Unknown, untried, ""}, {trampolines, Unknown, untried, ""}}
	}
	checks := Checks{
		tracingCheck(fentry, explainTracing(tryTrace(target, targetName, ebpf.AttachTraceFEntry, false))),
		tracingCheck(fexit, explainTracing(tryTrace(target, targetName, ebpf.AttachTraceFExit, false))),
		{trampolines, Unknown, untried, ""},
	}
	if checks[0].Answer == Yes && checks[1].Answer == Yes {
		checks[2] = tracingCheck(trampolines, CheckTracing())
	}
	return checks
}

func tracingCheck(key string, err error) Check {
	if err == nil {
		return Check{Key: key, Answer: Yes}
	}
	var e *TracingError
	if !errors.As(err, &e) {
		return Check{key, No, err.Error(), ""}
	}
	return Check{key, No, e.Reason, e.Remedy}
}

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

// loadTracepoint loads a program for a tracepoint's BTF, as monitor does, that begins with ins.
func loadTracepoint(ins asm.Instruction) error {
	prog, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name:         targetName,
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

// haveTracingHelper calls the helper without arguments. What the verifier objects to then tells whether
// it knows the helper; the features package cannot try this type of program.
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
	if errors.Is(err, unix.EACCES) { // it misses the arguments
		return nil
	}
	return err
}
