package capture

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
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
		switch ifi.Hook {
		case TailCall:
			fmt.Fprintf(&b, "%s: XDP programs like %s, called through this map\n", ifi.Name, ifi.Program)
		case XDP:
			fmt.Fprintf(&b, "%s: XDP program %s, %s mode\n", ifi.Name, ifi.Program, ifi.Mode)
		default:
			fmt.Fprintf(&b, "%s: program %s at the %s of XDP program %s\n", ifi.Label(), ifi.Program, ifi.Hook, ifi.Traced)
		}
	}
	b.WriteString("sampling: " + d.options.sampling() + "\n")
	if len(d.options.Verdicts) > 0 {
		fmt.Fprintf(&b, "at the exit only packets with the verdict %v\n", d.options.Verdicts)
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

// sampling says which packets are kept, in the order in which that is decided.
func (o *Options) sampling() string {
	var kept []string
	if o.SampleFlows > 1 {
		kept = append(kept, fmt.Sprintf("all packets of one flow in %d (--sample-flows %[1]d)", o.SampleFlows))
	}
	if o.First > 0 {
		kept = append(kept, fmt.Sprintf("the first %d packets of each flow (--first %[1]d)", o.First))
	}
	if o.Sample > 1 {
		kept = append(kept, fmt.Sprintf("one packet of every %d, at random (--sample %[1]d)", o.Sample))
	}
	if o.MaxRate > 0 {
		kept = append(kept, fmt.Sprintf("at most %d packets per second (--max-rate %[1]d)", o.MaxRate))
	}
	if kept == nil {
		return "every packet"
	}
	return strings.Join(kept, "; of these ")
}

// filterText is the filter as a file has it: a program as one line of numbers where there is no expression.
func (o *Options) filterText() string {
	if o.Filter == "" && o.Program != nil {
		return strings.ReplaceAll(strings.TrimSpace(filter.Decimal(o.Program)), "\n", ",")
	}
	return o.Filter
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
