// Package clock reads the clocks that BPF programs and people use, and their difference.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// readings is how many measurements Offset takes.
const readings = 8

// Monotonic is CLOCK_MONOTONIC in nanoseconds, the clock of bpf_ktime_get_ns.
func Monotonic() (int64, error) { return read(unix.CLOCK_MONOTONIC) }

// ThreadTime is the CPU time that the calling thread has used.
func ThreadTime() (time.Duration, error) {
	ns, err := read(unix.CLOCK_THREAD_CPUTIME_ID)
	return time.Duration(ns), err
}

// Offset returns the nanoseconds to add to CLOCK_MONOTONIC for CLOCK_REALTIME, and the time in
// CLOCK_MONOTONIC at which they were measured. Each of several measurements reads the wall clock
// between two readings of the monotonic clock. The one with the least time between these counts; it
// is wrong by at most half that time.
func Offset() (offset, now int64, err error) {
	narrowest := int64(-1)
	for range readings {
		before, err := read(unix.CLOCK_MONOTONIC)
		if err != nil {
			return 0, 0, err
		}
		wall, err := read(unix.CLOCK_REALTIME)
		if err != nil {
			return 0, 0, err
		}
		after, err := read(unix.CLOCK_MONOTONIC)
		if err != nil {
			return 0, 0, err
		}
		if width := after - before; narrowest < 0 || width < narrowest {
			narrowest = width
			offset = wall - before - width/2
		}
		now = after
	}
	return offset, now, nil
}

func read(clock int32) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read clock %d: %w", clock, err)
	}
	return ts.Nano(), nil
}
