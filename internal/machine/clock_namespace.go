package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	ownNamespace     = "/proc/self/ns/time"
	namespaceOffsets = "/proc/self/timens_offsets"

	// The target of ownNamespace outside of all containers: PROC_TIME_INIT_INO of
	// include/linux/proc_ns.h.
	initialNamespace = "time:[4026531834]"
)

// namespaceShift is the lead in nanoseconds of CLOCK_MONOTONIC in this process's time namespace
// over the machine's. It is read once, because a process with several threads, like every Go
// program, cannot change its time namespace.
var namespaceShift = sync.OnceValues(readNamespaceShift)

func readNamespaceShift() (int64, error) {
	own, err := os.Readlink(ownNamespace)
	if err != nil || own == initialNamespace {
		return 0, nil // an error: the kernel has no time namespaces
	}
	// The file has the offsets of the namespace for this process's children. That is also its own:
	// if the two differed, the kernel would refuse new threads, and no Go program could run.
	text, err := os.ReadFile(namespaceOffsets)
	if err != nil {
		return 0, fmt.Errorf("read the offset of this time namespace's clock: %w", err)
	}
	return parseShift(string(text))
}

// parseShift finds the monotonic clock's offset in a file with a line "CLOCK SECONDS NANOSECONDS"
// for each clock.
func parseShift(text string) (int64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "monotonic" {
			continue
		}
		sec, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			break
		}
		ns, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			break
		}
		return sec*int64(time.Second) + ns, nil
	}
	return 0, fmt.Errorf("%s does not tell the offset of the monotonic clock: %q", namespaceOffsets, text)
}
