package meter

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// onQuietThread runs f on a thread that takes no signals, on a CPU of its own or, with -1, on any. The thread
// ends with f. There ebpf.Program.Run runs a program exactly as often as it is told: a signal would end the
// system call after any number of runs, and it would start over with all of them.
func onQuietThread(cpu int, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		var all unix.Sigset_t
		for i := range all.Val {
			all.Val[i] = ^all.Val[i]
		}
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
			result <- fmt.Errorf("block signals: %w", err)
			return
		}
		if cpu >= 0 {
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				result <- fmt.Errorf("pin to CPU %d: %w", cpu, err)
				return
			}
		}
		result <- f()
	}()
	return <-result
}
