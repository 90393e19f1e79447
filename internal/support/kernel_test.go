package support

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func TestJudgeLoad(t *testing.T) {
	t.Parallel()
	refused := possibleRefusal()
	const key, what, needs = "lru_hash", "maps that forget (LRU)", "Linux 4.10 or newer"
	few := []string{"CAP_BPF", "CAP_PERFMON"}
	absent := no(key, "this kernel has no maps that forget (LRU)", "it takes Linux 4.10 or newer")
	untried := unknown(key, "not tried: missing CAP_BPF, CAP_PERFMON")
	for _, test := range []struct {
		name    string
		err     error
		missing []string
		want    Check
	}{
		{"loads", nil, nil, yes(key)},
		{"loads without the capabilities", nil, few, yes(key)},
		{"not permitted", unix.EPERM, few, untried},
		{"refused by the verifier without the capabilities", unix.EACCES, few, untried},
		{"forbidden", unix.EPERM, nil, no(key, "this kernel refuses maps that forget (LRU) (operation not permitted) "+refused.why, refused.remedy("bpf"))},
		{"not supported", ebpf.ErrNotSupported, nil, absent},
		{"not supported, and no capabilities", ebpf.ErrNotSupported, few, absent},
		{"unknown to the kernel", unix.EINVAL, nil, absent},
		{"a longer attribute than the kernel's", unix.E2BIG, nil, absent},
		{"another error", errors.New("it broke"), nil, no(key, "maps that forget (LRU): it broke", "it takes Linux 4.10 or newer")},
	} {
		expect(t, test.name, test.want, loadCheck(key, what, test.err, needs, test.missing))
	}
}

func TestCheckHelpers(t *testing.T) {
	t.Parallel()
	helpers := []helper{{asm.FnXdpOutput, "first", "5.6"}, {asm.FnProbeReadKernel, "second", "5.5"}}
	for _, test := range []struct {
		name string
		lack asm.BuiltinFunc
		want Check
	}{
		{"both there", asm.FnUnspec, Check{Key: "x", Answer: Yes, Reason: "first, second"}},
		{"one missing", asm.FnProbeReadKernel, no("x", "this kernel has no helper bpf_second in these programs", "it takes Linux 5.5 or newer")},
	} {
		expect(t, test.name, test.want, checkHelpers("x", helpers, func(fn asm.BuiltinFunc) error {
			if fn == test.lack {
				return ebpf.ErrNotSupported
			}
			return nil
		}))
	}
}
