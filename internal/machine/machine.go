// Package machine says what machine and kernel this is, for the headers of files and reports.
package machine

import (
	"bufio"
	"os"
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
