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

// CPUs is how many CPUs are online.
func CPUs() int {
	if online := OnlineCPUs(); online != nil {
		return len(online)
	}
	return runtime.NumCPU()
}

// OnlineCPUs has the numbers of the CPUs that are online, in ascending order, or is nil where the
// kernel does not say. In a container it may have only those that the container may use.
func OnlineCPUs() []int {
	list, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return parseCPUs(strings.TrimSpace(string(list)))
}

// parseCPUs reads a list as the kernel writes it: 0-3,6. It returns nil if it is no list.
func parseCPUs(list string) (cpus []int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || to < from {
			return nil
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus
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
