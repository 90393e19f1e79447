package support

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// FitPerfRings returns how large perf's ring of each CPU can be, in bytes: size, or as often as
// needed half of it, but not less than least. It fails where this process may not have such rings
// at all: the error says why not. A process that lacks capabilities gets size, since CheckProcess
// says what it lacks.
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
	// What may be locked is shared with the user's other processes, which the kernel does not show.
	for l.ring = l.largest(); l.ring > 0; l.ring = l.largest() {
		if !errors.Is(l.tryRings(l.ring), ErrLockedMemory) {
			return l.ring, nil
		}
		l.ring /= 2
	}
	return 0, fmt.Errorf("rings of %d KiB for %d CPUs are more locked memory than this user may have", least>>10, l.cpus)
}

// tryRings opens a ring of so many bytes on each CPU, and closes all of them.
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
