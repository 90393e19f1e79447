package testnet

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// RunInterrupted calls run on CPU 0, again and again, from two threads. One has real-time priority
// and wakes the given number of times: it then interrupts the other one, wherever the kernel allows
// it. It returns how often run was called. Needs root.
func RunInterrupted(times int, run func() error) (calls uint64, err error) {
	var n atomic.Uint64
	var done atomic.Bool
	result := make(chan error)
	count := func() error {
		if err := run(); err != nil {
			return err
		}
		n.Add(1)
		return nil
	}
	go func() {
		result <- machine.Quiet(0, func() error {
			for !done.Load() {
				if err := count(); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	go func() {
		defer done.Store(true)
		result <- machine.Quiet(0, func() error {
			if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0); err != nil {
				return err
			}
			for i := range times {
				// A different delay each time, so that the other thread is interrupted everywhere.
				pause := unix.NsecToTimespec(int64(20*time.Microsecond) + int64(i%97)*int64(time.Microsecond))
				unix.Nanosleep(&pause, nil)
				if err := count(); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	err = errors.Join(<-result, <-result)
	return n.Load(), err
}
