// Package machine says what machine and kernel this is, for the headers of files and reports, and
// how much of it there is.
package machine

import (
	"bufio"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CPU is the CPU's model as /proc/cpuinfo has it, or else the machine's architecture.
func CPU() string {
	f, err := os.Open("/proc/cpuinfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	_, _, architecture := uname()
	return architecture
}

// Kernel is what `uname -srm` prints: system, release and architecture.
func Kernel() string {
	system, release, architecture := uname()
	return system + " " + release + " " + architecture
}

func uname() (system, release, architecture string) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux", "", ""
	}
	return unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:])
}

// OnlineCPUs lists the CPUs that are online as the kernel does: 0-3,6. It is "" where the kernel does
// not say.
func OnlineCPUs() string {
	list, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return strings.TrimSpace(string(list))
}

// CPUs is how many CPUs are online.
func CPUs() int {
	n := countCPUs(OnlineCPUs())
	if n == 0 {
		return runtime.NumCPU()
	}
	return n
}

// countCPUs returns how many CPUs a list has, or 0 if it is no list.
func countCPUs(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || to < from {
			return 0
		}
		n += int(to-from) + 1
	}
	return n
}

// AvailableMemory is how many bytes programs can still have without swapping, as the kernel
// estimates it. Where the kernel does not say, it is more than any machine has.
func AvailableMemory() uint64 {
	f, err := os.Open("/proc/meminfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 2 || fields[0] != "MemAvailable:" {
				continue
			}
			if kib, err := strconv.ParseUint(fields[1], 10, 50); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxUint64
}
