package support

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// oldestKernel is Linux 6.1, the oldest supported kernel.
const oldestKernel = 6<<16 | 1<<8

// errENOTSUPP is the kernel's internal ENOTSUPP. The bpf system call returns it if a kernel has no
// trampolines.
const errENOTSUPP = unix.Errno(524)

// ExplainLoad explains an error of loading a program or creating a map. The text begins with
// `tried`. Its caller has checked the capabilities, so an EPERM has another cause.
func ExplainLoad(tried string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		refused := possibleRefusal()
		return fmt.Errorf("%s: %w %s: %s", tried, unix.EPERM, refused.why, refused.remedy("bpf"))
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%s: %w: %s", tried, unix.ENOMEM, addressSpace())
	case !errors.Is(err, unix.EMFILE) && mayOpenFew():
		return fmt.Errorf("%s: %w, perhaps because of %w", tried, err, unix.EMFILE)
	case isLogged(err, "JIT is required"):
		return fmt.Errorf("%s: %s, without which no program can call the kernel's functions: %s", tried, jitOff, turnJITOn)
	}
	if version, e := features.LinuxVersionCode(); e == nil && version < oldestKernel {
		return fmt.Errorf("%s: %w: this needs Linux 6.1 or later", tried, err)
	}
	return fmt.Errorf("%s: %w", tried, err)
}

// mayOpenFew reports whether the limit of open files is so low that it may be the cause of an error
// of loading: the library may report it as a missing feature of the kernel.
func mayOpenFew() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < 128
}

const (
	jitOff    = "the kernel's BPF JIT is off"
	turnJITOn = "sysctl net.core.bpf_jit_enable=1"
)

// isLogged reports whether the verifier's log contains the words.
func isLogged(err error, words string) bool {
	var verifier *ebpf.VerifierError
	return errors.As(err, &verifier) && strings.Contains(strings.Join(verifier.Log, "\n"), words)
}

// ExplainBTF explains an error of reading the kernel's description of its types (BTF). The text
// begins with `tried`.
func ExplainBTF(tried string, err error) error {
	if missing := CheckBTF(); missing != nil {
		err = missing
	}
	return fmt.Errorf("%s: %w", tried, err)
}

// CheckBTF returns nil if the kernel describes its types (BTF), without which no program can call a
// kernel function.
func CheckBTF() error {
	if !exists(kernelBTF) {
		return fmt.Errorf("there is no %s: %s", kernelBTF, remedyBTF)
	}
	return nil
}

// ExplainPromiscuous explains an error of setting an interface to promiscuous mode. The text begins
// with `tried`.
func ExplainPromiscuous(tried string, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: missing privileges: CAP_NET_RAW; run it as root (sudo), or give the binary cap_net_raw, too", tried)
	}
	return fmt.Errorf("%s: %w", tried, err)
}

// ExplainTracer explains an error of loading a fentry or fexit program for a target, or of
// attaching it, for which the kernel only returns a number. The returned error wraps an
// *xdp.TracingError.
func ExplainTracer(err error, target xdp.Program) error {
	explained := explainTracing(err)
	if e := (*xdp.TracingError)(nil); errors.As(explained, &e) {
		e.Program = target
		if strings.HasPrefix(target.Name, ownPrefix) && errors.Is(e, ErrTracingRefused) {
			e.Reason, e.Remedy, e.Kind = "it is another xdpcap's, and this kernel permits no tracing", "stop it", ErrAnotherCapture
		}
	}
	return fmt.Errorf("trace program %v: %w", target, explained)
}

// ownPrefix begins the names of all programs in bpf/, so that bpftool shows whose they are.
const ownPrefix = "xdpcap_"

// explainTracing returns nil or an *xdp.TracingError.
func explainTracing(err error) error {
	if err == nil {
		return nil
	}
	return findCircumstances().explainTracing(err)
}

// circumstances distinguish the causes that one error number can have.
type circumstances struct {
	missing []string // capabilities that tracing needs
	noBTF   bool     // the kernel does not describe its own types
	refused refusal  // possible cause if the capabilities are held
}

func findCircumstances() circumstances {
	return circumstances{missing: missingForTracing(), noBTF: !exists(kernelBTF), refused: possibleRefusal()}
}

func (c circumstances) explainTracing(err error) *xdp.TracingError {
	e := &xdp.TracingError{Err: err}
	var verifier *ebpf.VerifierError
	switch {
	case len(c.missing) > 0 && errors.Is(err, unix.EPERM):
		e.Reason = "missing privileges: " + strings.Join(c.missing, ", ")
		e.Remedy = "run it as root (sudo)"
	case c.noBTF:
		e.Reason = "this kernel has no BTF (" + kernelBTF + ")"
		e.Remedy = remedyBTF
	case errors.Is(err, unix.EPERM):
		e.Reason = "this kernel refuses fentry and fexit programs (" + unix.EPERM.Error() + ") " + c.refused.why
		e.Remedy, e.Kind = c.refused.remedy("bpf"), ErrTracingRefused
		if c.refused.allow == "" {
			e.Remedy, e.Kind = "", ErrKernelRefuses
		}
	case errors.Is(err, unix.EBUSY):
		e.Reason = "another program has taken its place (freplace)"
		e.Remedy = "trace that one"
	case errors.Is(err, unix.E2BIG) && !errors.As(err, &verifier):
		e.Reason = "it has as many tracers as the kernel takes"
		e.Remedy = "end another one"
	case errors.Is(err, errENOTSUPP), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, ebpf.ErrNotSupported):
		e.Reason = "this kernel has no BPF trampolines on this machine's architecture"
		e.Remedy = "use a newer kernel: x86-64 has them since 5.5, arm64 since 6.0"
	case isLogged(err, "invalid mem access 'scalar'"):
		e.Reason = "the compiler has changed its arguments, which the kernel then does not know"
		e.Remedy = "declare it without static, or use all of its arguments with values that vary"
	case isLogged(err, "JITed"):
		e.Reason = jitOff
		e.Remedy = turnJITOn + ", then load the program again"
	default:
		e.Reason = fmt.Sprintf("the kernel refuses fentry and fexit programs: %v", err)
	}
	return e
}

// A refusal is a possible cause of EPERM although the capabilities are held.
type refusal struct {
	why   string // completes the sentence "the kernel refuses it"
	allow string // the remedy; "" = use another kernel
}

// remedy returns the remedy for a refused system call.
func (r refusal) remedy(call string) string {
	if r.allow == "" {
		return "use another kernel"
	}
	return strings.ReplaceAll(r.allow, "CALL", call)
}

func possibleRefusal() refusal {
	switch {
	case inUserNamespace():
		return refusal{"because capabilities of a user namespace (a container's root) do not count",
			"run it as root outside of the container"}
	case lockedDown():
		return refusal{"because it is locked down (/sys/kernel/security/lockdown)", ""}
	case seccompFilter():
		return refusal{"despite the capabilities: a seccomp filter may do it",
			"allow the system call CALL in the filter (a container's is set by --security-opt seccomp=, " +
				"a pod's by seccompProfile), or run it outside of the container"}
	}
	return refusal{why: "despite the capabilities"}
}

func inUserNamespace() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295"
}

func lockedDown() bool {
	mode, err := os.ReadFile("/sys/kernel/security/lockdown")
	return err == nil && !strings.Contains(string(mode), "[none]")
}

// seccompFilter reports whether a filter restricts the system calls of this process that it has not
// installed itself.
func seccompFilter() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && filtersIn(string(status)) > privilege.Filters()
}

// filtersIn returns the number of system call filters of a process, from its /proc/PID/status.
func filtersIn(status string) (n int) {
	_, after, _ := strings.Cut(status, "\nSeccomp_filters:")
	line, _, _ := strings.Cut(after, "\n")
	n, _ = strconv.Atoi(strings.TrimSpace(line))
	return n
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
