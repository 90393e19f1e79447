package machine

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Quiet runs f on one CPU, with all signals blocked except for those in except, and returns its
// error.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var cpus unix.CPUSet
	var blocked unix.Sigset_t
	failed := errors.New("failed")
	err := Quiet(0, func() error {
		if err := unix.SchedGetaffinity(0, &cpus); err != nil {
			return err
		}
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &blocked); err != nil {
			return err
		}
		return failed
	}, unix.SIGUSR2)
	if err != failed {
		t.Errorf("error %v, want %v", err, failed)
	}
	if cpus.Count() != 1 || !cpus.IsSet(0) {
		t.Errorf("%d CPUs, CPU 0 is one of them: %v", cpus.Count(), cpus.IsSet(0))
	}
	for _, test := range []struct {
		signal unix.Signal
		want   bool
	}{{unix.SIGURG, true}, {unix.SIGTERM, true}, {unix.SIGUSR2, false}} {
		if got := blocked.Val[0]>>(test.signal-1)&1 != 0; got != test.want {
			t.Errorf("signal %v is blocked: %v, want %v", test.signal, got, test.want)
		}
	}
}
