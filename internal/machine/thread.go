package machine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AnyCPU lets the kernel choose the CPU of a thread.
const AnyCPU = -1

// Quiet runs f on a thread of its own, which stays on one CPU and takes no signals except those in
// except. It returns f's error, and the thread ends with f. On such a thread ebpf.Program.Run runs
// a program exactly as often as requested: a signal would end the system call after an unknown
// number of runs, and Program.Run would start over.
//
// Go's garbage collector cannot interrupt f either, because that needs a signal: it waits until f
// calls a function that is not inlined, or blocks. So f must not wait in a loop for another
// goroutine to change memory: that goroutine may be waiting for the collector. Such a loop must
// call runtime.Gosched.
func Quiet(cpu int, f func() error, except ...unix.Signal) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		err := blockSignals(except)
		if err == nil {
			err = pin(cpu)
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// blockSignals blocks all signals for the calling thread, even those of Go's runtime, except for
// the given ones.
func blockSignals(except []unix.Signal) error {
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = ^set.Val[i]
	}
	for _, s := range except {
		bits := 8 * int(unsafe.Sizeof(set.Val[0]))
		set.Val[(int(s)-1)/bits] &^= 1 << ((int(s) - 1) % bits)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil); err != nil {
		return fmt.Errorf("block signals: %w", err)
	}
	return nil
}

// pin keeps the calling thread on a CPU.
func pin(cpu int) error {
	if cpu == AnyCPU {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return nil
}
