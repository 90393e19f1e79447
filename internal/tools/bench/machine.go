package main

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

func describeMachine(all []tool) Machine {
	m := Machine{CPUs: runtime.NumCPU(), CPU: machine.CPU(), Kernel: machine.Kernel(), Versions: versions(all)}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		const one = 1 << 16 // SI_LOAD_SHIFT, linux/sysinfo.h
		m.Load = float64(info.Loads[0]) / one
	}
	return m
}

// versions returns one line with the version of every program that is installed.
func versions(all []tool) string {
	var found, seen []string
	for _, t := range all {
		if slices.Contains(seen, t.args[0]) {
			continue
		}
		seen = append(seen, t.args[0])
		// The error is ignored: xdpdump prints its version and fails, and a missing tool is
		// reported in its row.
		out, _ := exec.Command(t.args[0], "--version").CombinedOutput()
		if len(out) == 0 {
			continue
		}
		line, _, _ := strings.Cut(string(out), "\n")
		found = append(found, t.program()+" "+version(line))
	}
	return strings.Join(found, ", ")
}

// version returns the version number in the first line of --version.
func version(line string) string {
	for _, word := range strings.Fields(line) {
		if word = strings.Trim(word, "(),"); strings.ContainsAny(word, "0123456789") {
			return strings.TrimSuffix(word, ".")
		}
	}
	return line
}
