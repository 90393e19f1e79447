package xdp

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that may not look at loaded programs is told what it lacks.
func TestExplainHidden(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("get program by id: %w", unix.EPERM), "open XDP program 7: operation not permitted: the kernel shows loaded programs to CAP_SYS_ADMIN only; " +
			"run it as root (sudo), or add cap_sys_admin to the binary"},
		{other, "open XDP program 7: other"},
	} {
		err := explainHidden("open XDP program 7", test.err)
		if err.Error() != test.want || !errors.Is(err, unix.EPERM) && !errors.Is(err, other) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}
