package machine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the machine's CLOCK_MONOTONIC in nanoseconds, the clock of bpf_ktime_get_ns.
func Monotonic() (int64, error) { return readMonotonic(unix.CLOCK_MONOTONIC) }

// LastTick is the value of Monotonic at the kernel clock's last tick: the clock of
// bpf_ktime_get_coarse_ns.
func LastTick() (int64, error) { return readMonotonic(unix.CLOCK_MONOTONIC_COARSE) }

// readMonotonic reads a monotonic clock and subtracts the shift of this process's time namespace.
func readMonotonic(clock int32) (int64, error) {
	shift, err := namespaceShift()
	if err != nil {
		return 0, err
	}
	ns, err := readClock(clock)
	return ns - shift, err
}

// ClockTick is the time between two ticks of the kernel's clock: 1 to 10 ms. An idle machine skips
// ticks.
func ClockTick() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &ts); err != nil {
		return 0, fmt.Errorf("ask for the length of a tick: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// ThreadTime is the CPU time that the calling thread has used.
func ThreadTime() (time.Duration, error) {
	ns, err := readClock(unix.CLOCK_THREAD_CPUTIME_ID)
	return time.Duration(ns), err
}

func readClock(clock int32) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read clock %d: %w", clock, err)
	}
	return ts.Nano(), nil
}
