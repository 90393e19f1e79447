package support

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/privilege"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The same number has different causes, and the error names the first one that explains it.
func TestExplainTracing(t *testing.T) {
	t.Parallel()
	jitOff := &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"Can trace only JITed BPF progs"}}
	tooLong := &ebpf.VerifierError{Cause: unix.E2BIG, Log: []string{"BPF program is too large"}}
	for _, test := range []struct {
		name   string
		given  circumstances
		err    error
		reason string
		remedy string
		kind   error
	}{
		{"no capability", circumstances{missing: []string{"CAP_BPF", "CAP_SYS_ADMIN"}, noBTF: true}, unix.EPERM,
			"missing privileges: CAP_BPF, CAP_SYS_ADMIN", "run it as root (sudo)", nil},
		{"a capability that does not matter here", circumstances{missing: []string{"CAP_SYS_ADMIN"}}, unix.EBUSY,
			"another program has taken its place (freplace)", "trace that one", nil},
		{"no BTF", circumstances{noBTF: true}, unix.EPERM,
			"this kernel has no BTF (/sys/kernel/btf/vmlinux)", "use a kernel with CONFIG_DEBUG_INFO_BTF=y", nil},
		{"refused", circumstances{refused: refusal{why: "because it is locked down"}}, unix.EPERM,
			"this kernel refuses fentry and fexit programs (operation not permitted) because it is locked down", "", ErrKernelRefuses},
		{"refused by a filter", circumstances{refused: refusal{"despite the capabilities", "allow CALL"}}, unix.EPERM,
			"this kernel refuses fentry and fexit programs (operation not permitted) despite the capabilities", "allow bpf", ErrTracingRefused},
		{"replaced", circumstances{}, unix.EBUSY, "another program has taken its place (freplace)", "trace that one", nil},
		{"full", circumstances{}, unix.E2BIG, "it has as many tracers as the kernel takes", "end another one", nil},
		{"no trampolines", circumstances{}, unix.Errno(524),
			"this kernel has no BPF trampolines on this machine's architecture", "use a newer kernel: x86-64 has them since 5.5, arm64 since 6.0", nil},
		{"not supported", circumstances{}, ebpf.ErrNotSupported,
			"this kernel has no BPF trampolines on this machine's architecture", "use a newer kernel: x86-64 has them since 5.5, arm64 since 6.0", nil},
		{"no JIT", circumstances{}, jitOff,
			"the kernel's BPF JIT is off", "sysctl net.core.bpf_jit_enable=1, then load the program again", nil},
		{"refused by the verifier", circumstances{}, tooLong,
			"the kernel refuses fentry and fexit programs: load: " + tooLong.Error(), "", nil},
		{"unknown", circumstances{}, unix.EIO, "the kernel refuses fentry and fexit programs: load: input/output error", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := test.given.explainTracing(fmt.Errorf("load: %w", test.err))
			expect(t, "reason, remedy", []string{test.reason, test.remedy}, []string{e.Reason, e.Remedy})
			if e.Kind != test.kind {
				t.Errorf("kind %v, want %v", e.Kind, test.kind)
			}
			if !errors.Is(e, test.err) {
				t.Errorf("%v does not wrap what the kernel said", e)
			}
		})
	}
}

func TestExplainTracer(t *testing.T) {
	t.Parallel()
	err := ExplainTracer(unix.EIO, xdp.Program{ID: 7, Name: "lb"})
	if want := "trace program lb (id 7): "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q does not begin with %q", err, want)
	}
	if e := (*xdp.TracingError)(nil); !errors.As(err, &e) {
		t.Errorf("%v is no TracingError", err)
	}
	if err := explainTracing(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// cilium/ebpf adds to EPERM that a memory limit should be raised. That is wrong where the process
// has the capabilities.
func TestExplainLoad(t *testing.T) {
	t.Parallel()
	guess := fmt.Errorf("%w (MEMLOCK may be too low)", unix.EPERM)
	refused := possibleRefusal()
	for _, test := range []struct{ name, got, want string }{
		{"forbidden", ExplainLoad("load it", guess).Error(),
			"load it: operation not permitted " + refused.why + ": " + refused.remedy("bpf")},
		{"no memory", ExplainLoad("load it", unix.ENOMEM).Error(), "load it: cannot allocate memory: " + addressSpace()},
		{"no JIT", ExplainLoad("load it", &ebpf.VerifierError{Cause: errENOTSUPP, Log: []string{"JIT is required for calling kernel function"}}).Error(),
			"load it: the kernel's BPF JIT is off, without which no program can call the kernel's functions: sysctl net.core.bpf_jit_enable=1"},
		{"another error", ExplainLoad("load it", unix.EIO).Error(), "load it: input/output error"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", test.name, test.got, test.want)
		}
	}
	if err := ExplainLoad("load it", guess); !errors.Is(err, unix.EPERM) {
		t.Errorf("%v does not wrap EPERM", err)
	}
}

// A filter of system calls that this process has loaded itself refuses none of its calls. The
// process in which this is tried reports by its exit status.
func TestOwnFilter(t *testing.T) {
	t.Parallel()
	const inChild = "SUPPORT_TEST_OWN_FILTER"
	before := possibleRefusal().why
	if os.Getenv(inChild) != "" {
		box := privilege.Sandbox{Work: []privilege.Work{privilege.BPF}, Readable: []string{"/proc", "/sys"}}
		if err := box.Enter(); err != nil {
			t.Fatal(err)
		}
		if box.Unfiltered != nil {
			t.Skip(box.Unfiltered)
		}
		if after := possibleRefusal().why; after != before {
			t.Errorf("the kernel refuses %q, and before the process had a filter %q", after, before)
		}
		return
	}
	child := exec.Command("/proc/self/exe", "-test.run=^TestOwnFilter$", "-test.v")
	child.Env = append(os.Environ(), inChild+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for status, want := range map[string]int{
		"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\nThreads:\t1\n": 3,
		"Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n":              0,
		"Name:\tx\n": 0,
	} {
		if n := filtersIn(status); n != want {
			t.Errorf("%q has %d filters, want %d", status, n, want)
		}
	}
}
