package meter

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// pinned runs f on one CPU. The thread ends with the goroutine.
func pinned(cpu int, f func() error) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	return f()
}
