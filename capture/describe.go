package capture

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A description is what a file says about a session besides its packets.
type description struct {
	interfaces []Interface
	options    Options
	started    int64 // ns since the Unix epoch
	hardware   string
	os         string
}

func (s *Session) describe() description {
	return description{
		interfaces: s.Interfaces(),
		options:    s.options,
		started:    s.started,
		hardware:   processor(),
		os:         kernel(),
	}
}

// comment names the programs, the sampling and the command line.
func (d *description) comment(commandLine string) string {
	var b strings.Builder
	for _, ifi := range d.interfaces {
		fmt.Fprintf(&b, "%s: XDP program %s, %s mode\n", ifi.Name, ifi.Program, ifi.Mode)
	}
	if d.options.Sample > 1 {
		fmt.Fprintf(&b, "sampling: one packet in %d, at random (--sample %d)\n", d.options.Sample, d.options.Sample)
	} else {
		b.WriteString("sampling: every packet\n")
	}
	if d.options.Sink {
		b.WriteString("every packet was dropped after sampling (--sink)\n")
	}
	fmt.Fprintf(&b, "snapshot length: %d", d.options.SnapLen)
	if commandLine != "" {
		fmt.Fprintf(&b, "\ncommand line: %s", commandLine)
	}
	return b.String()
}

// processor is the CPU's model as /proc/cpuinfo has it, or its architecture.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return uname().machine
}

// kernel is like `uname -srm`.
func kernel() string {
	u := uname()
	return u.system + " " + u.release + " " + u.machine
}

type names struct{ system, release, machine string }

func uname() names {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return names{system: "Linux"}
	}
	return names{
		system:  unix.ByteSliceToString(u.Sysname[:]),
		release: unix.ByteSliceToString(u.Release[:]),
		machine: unix.ByteSliceToString(u.Machine[:]),
	}
}
