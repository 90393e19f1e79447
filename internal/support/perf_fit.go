package support

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// FitPerfRings returns the largest possible size in bytes of perf's ring of each CPU: size, halved
// as often as needed, but not less than least. It returns an error with the reason if this process
// cannot have such rings at all. For a process without the capabilities it returns size, because
// CheckProcess reports the missing ones.
func FitPerfRings(size, least int) (int, error) {
	if len(missingCapabilities(heldOrNone())) > 0 {
		return size, nil
	}
	if err := tryPerfRing(os.Getpagesize()); errors.Is(err, ErrPerfRefused) {
		reason, _ := findPerfCircumstances().explainEvent(err)
		return 0, errors.New(reason)
	}
	l := findLimits(size)
	l.least = least
	if l.lockable == math.MaxUint64 {
		return size, nil
	}
	// The user's other processes share the limit, and the kernel does not show how much they have
	// locked.
	for l.ring = l.largest(); l.ring > 0; l.ring = l.largest() {
		if !errors.Is(l.tryRings(l.ring), ErrLockedMemory) {
			return l.ring, nil
		}
		l.ring /= 2
	}
	return 0, fmt.Errorf("rings of %d KiB for %d CPUs are more locked memory than this user may have", least>>10, l.cpus)
}

// tryRings opens a ring of size bytes on each CPU, and closes all of them.
func (l limits) tryRings(size int) error {
	for cpu, opened := 0, 0; opened < l.cpus && cpu < maxCPUs; cpu++ {
		event, memory, err := OpenPerfRing(cpu, size, 1)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return err
		}
		opened++
		defer unix.Close(event)
		defer unix.Munmap(memory)
	}
	return nil
}
