package support

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
)

// A refused perf event has different causes, of which the setting of the kernel is named with the
// capability that suffices with it.
func TestJudgePerf(t *testing.T) {
	t.Parallel()
	const (
		key  = "perf_event"
		held = 1<<unix.CAP_BPF | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_PERFMON
	)
	locked := message.Errorf(ErrLockedMemory, "map a ring: too much")
	for _, test := range []struct {
		name  string
		err   error
		given perfCircumstances
		want  Check
	}{
		{"opens", nil, perfCircumstances{}, yes(key)},
		{"Debian's setting", unix.EACCES, perfCircumstances{held: held, paranoid: "3"},
			no(key, "kernel.perf_event_paranoid is 3, which requires CAP_SYS_ADMIN",
				"run it as root (sudo), add cap_sys_admin to the binary with setcap, or sysctl kernel.perf_event_paranoid=2")},
		{"no capability", unix.EACCES, perfCircumstances{held: 1 << unix.CAP_BPF, paranoid: "2"},
			unknown(key, "not tried: missing CAP_NET_ADMIN, CAP_PERFMON")},
		{"a security module", unix.EACCES, perfCircumstances{held: held | 1<<unix.CAP_SYS_ADMIN, paranoid: "3", refused: refusal{why: "somehow"}},
			no(key, "this kernel refuses perf events somehow", "use another kernel")},
		{"a filter", unix.EPERM, perfCircumstances{held: held, refused: refusal{"somehow", "allow CALL"}},
			no(key, "this kernel refuses perf events somehow", "allow perf_event_open")},
		{"a kernel without", unix.ENOSYS, perfCircumstances{held: held},
			no(key, "this kernel has no perf events", "use a kernel with CONFIG_PERF_EVENTS=y")},
		{"locked memory", locked, perfCircumstances{held: held}, Check{key, No, "map a ring: too much", "", ErrLockedMemory}},
		{"another error", unix.EIO, perfCircumstances{held: held}, no(key, "open it: input/output error", "")},
	} {
		err := test.err
		if err != nil && err != locked {
			err = fmt.Errorf("open it: %w", err)
		}
		expect(t, test.name, test.want, perfCheck(key, err, test.given))
	}
}
