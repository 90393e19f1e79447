// Package machine describes this machine and its kernel for file headers and reports, reports its
// memory, tasks and CPUs, and formats such amounts for people. Quiet runs a function on one CPU.
//
// It also reads the clocks of BPF programs and the wall clock, and measures the difference between
// them. Here CLOCK_MONOTONIC is always the machine's own, as bpf_ktime_get_ns reads it. In a time
// namespace the system call returns another clock.
//
// It identifies the other end of a connection: its network and, over loopback, the user of this
// machine.
package machine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU's model from /proc/cpuinfo, or else the machine's architecture.
func CPU() string {
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		return model
	}
	_, _, architecture := uname()
	return architecture
}

// field returns the first value for a key in a file of lines "key: value", or "".
func field(path, key string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return fieldOf(f, key)
}

// fieldOf is field for a file that is open.
func fieldOf(f io.Reader, key string) string {
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if k, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Kernel returns the output of `uname -srm`: system, release and architecture.
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

// CPUs returns the number of CPUs that are online.
func CPUs() int {
	if online := OnlineCPUs(); online != nil {
		return len(online)
	}
	return runtime.NumCPU()
}

// OnlineCPUs returns the numbers of the CPUs that are online, in ascending order; nil if the kernel
// does not list them. In a container it may list only the CPUs that the container may use.
func OnlineCPUs() []int { return readCPUs("online") }

// OnlinePeriod returns a number for the time during which a CPU stays online: it changes when the
// CPU was offline in between. It is 0 if the CPU is offline, or if the kernel does not show its
// topology.
func OnlinePeriod(cpu int) uint64 {
	// The kernel removes the directory with the CPU, and makes a new one. In a container, another
	// file system may replace it, where a directory's number may change at any time.
	path := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology", cpu)
	var dir unix.Stat_t
	var system unix.Statfs_t
	if unix.Stat(path, &dir) != nil || unix.Statfs(path, &system) != nil || system.Type != unix.SYSFS_MAGIC {
		return 0
	}
	return dir.Ino
}

// PresentCPUs returns the numbers of the CPUs that exist, online or not, in ascending order; nil if
// the kernel does not list them.
func PresentCPUs() []int { return readCPUs("present") }

// readCPUs reads one of the kernel's lists of CPUs.
func readCPUs(name string) []int {
	list, _ := os.ReadFile("/sys/devices/system/cpu/" + name)
	return parseCPUs(strings.TrimSpace(string(list)))
}

// parseCPUs parses a list in the kernel's format: 0-3,6. It returns nil if it is not a list.
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
