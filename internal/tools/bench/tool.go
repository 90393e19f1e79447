package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The transports of xdpcap, in the order of the table.
const (
	perf = "perf"
	ring = "ring"
)

var transports = []string{ring, perf}

// A tool is a capture program and how to run it: with its default options, writing whole packets to
// nowhere, unless to says otherwise.
type tool struct {
	name    string
	args    []string // its command line
	missing string   // why it cannot be run, "" if it can

	// verdict is what happens to a packet under the tool. The traffic without the tool is measured
	// under an XDP program that only returns this verdict.
	verdict xdp.Verdict

	// onStack says that the tool captures in the kernel's stack and has no XDP program. An empty
	// XDP program with the verdict is then attached, because the generator needs one.
	onStack bool

	// ready is a part of what the tool prints once it captures.
	ready string

	// handOver is the longest time until the tool has read a packet. tcpdump and its like see the
	// last block of their ring only then, and lose it if they are ended earlier.
	handOver time.Duration

	stdout *os.File // in place of what is looked at; nil: that

	// captured returns the tool's own count, which it finds in the output.
	captured func(said string) (uint64, error)
}

// A program is the xdpcap that is measured.
type program struct {
	path   string
	help   string  // what --help prints
	report *Report // of what was measured with it
}

func newProgram(path string) (*program, error) {
	help, err := exec.Command(path, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --help: %w", path, err)
	}
	return &program{path: path, help: string(help), report: &Report{}}, nil
}

// runnable returns arguments by which xdpcap's program at the hook XDP can be run by BPF_PROG_RUN,
// too: one that asks the card for VLAN tags is bound to its device, and cannot.
func (p *program) runnable() []string {
	args := []string{"-i", rxName}
	if strings.Contains(p.help, "--vlan-restore") {
		args = append(args, "--vlan-restore=false")
	}
	return args
}

// tool returns a run of xdpcap at the hook XDP with a transport and further arguments.
func (p *program) tool(name, transport string, verdict xdp.Verdict, args ...string) tool {
	t := tool{
		name:     name,
		args:     []string{p.path},
		verdict:  verdict,
		ready:    "listening on",
		handOver: 250 * time.Millisecond,
		captured: fromLine(`(?m)^(\d+) packets? captured`),
	}
	switch {
	case strings.Contains(p.help, "--transport"):
		t.args = append(t.args, "--transport", transport)
	case transport != perf:
		t.missing = "this xdpcap has no --transport"
	}
	if verdict == xdp.Drop {
		t.args = append(t.args, "--sink")
	}
	t.args = append(t.args, "-w", nowhere)
	t.args = append(t.args, args...)
	return t
}

// nowhere is the file that takes whatever is written to it.
const nowhere = "/dev/null"

// to returns the tool with another file to write.
func (t *tool) to(path string) *tool {
	other := *t
	other.args = slices.Clone(t.args)
	for i, arg := range other.args {
		if arg == nowhere {
			other.args[i] = path
		}
	}
	return &other
}

// Names of the rows.
const (
	dropName     = "no capture, XDP_DROP"
	passName     = "no capture, XDP_PASS"
	copyDropName = "copying alone, XDP_DROP"
	copyPassName = "copying alone, XDP_PASS"
	xdpdumpName  = "xdpdump"
	tcpdumpName  = "tcpdump"
	dumpcapName  = "dumpcap"
	netsniffName = "netsniff-ng"
)

func sinkName(transport string) string { return "xdpcap --sink, " + transport }
func ownName(transport string) string  { return "xdpcap, " + transport }

// Names of rows that have one transport, ring.
const (
	pollName = "xdpcap --sink, lowprec" // -j host_lowprec
	roomName = "xdpcap --sink, -B 64M"
)

// otherNames are the tools beside which xdpcap is measured.
var otherNames = []string{xdpdumpName, tcpdumpName, dumpcapName, netsniffName}

// tools returns the runs of xdpcap that are compared with other tools.
func (p *program) tools() []tool {
	var all []tool
	for _, transport := range transports {
		all = append(all, p.tool(sinkName(transport), transport, xdp.Drop, "-i", rxName))
	}
	all = append(all, p.tool(pollName, ring, xdp.Drop, append([]string{"-i", rxName}, pollArgs...)...))
	for _, transport := range transports {
		all = append(all, p.tool(ownName(transport), transport, xdp.Pass, "-i", rxName))
	}
	return all
}

// others returns the other tools.
func others() []tool {
	all := []tool{
		{
			name:     xdpdumpName,
			args:     []string{"xdpdump", "-i", rxName, "--load-xdp-program", "-w", nowhere},
			verdict:  xdp.Pass,
			ready:    "listening on",
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`(?m)^(\d+) packets? captured`),
		},
		{
			name:     tcpdumpName,
			args:     []string{"tcpdump", "-i", rxName, "-w", nowhere},
			verdict:  xdp.Pass,
			onStack:  true,
			ready:    "listening on",
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`(?m)^(\d+) packets? captured`),
		},
		{
			name:     dumpcapName,
			args:     []string{"dumpcap", "-i", rxName, "-q", "-w", nowhere},
			verdict:  xdp.Pass,
			onStack:  true,
			ready:    "File: ", // dumpcap prints "Capturing on" too early
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`Packets captured: (\d+)`),
		},
		{
			// -A, -N and -Q keep it from changing the machine's settings, -s from printing packets.
			name:     netsniffName,
			args:     []string{"netsniff-ng", "--in", rxName, "--out", nowhere, "-s", "-A", "-N", "-Q"},
			verdict:  xdp.Pass,
			onStack:  true,
			ready:    "Running!",
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`(\d+)\s+packets incoming`), // those that it has read
		},
	}
	for i := range all {
		if _, err := exec.LookPath(all[i].args[0]); err != nil && all[i].missing == "" {
			all[i].missing = "not installed"
		}
	}
	return all
}

// named returns those of the tools that have one of the names, in the order of these.
func named(all []tool, names ...string) (some []tool) {
	for _, name := range names {
		for _, t := range all {
			if t.name == name {
				some = append(some, t)
			}
		}
	}
	return some
}

// program is the tool's name without flags.
func (t *tool) program() string { return filepath.Base(t.args[0]) }

// commandLine is how a user would type it.
func (t *tool) commandLine() string {
	return t.program() + " " + strings.Join(t.args[1:], " ")
}

func fromLine(pattern string) func(string) (uint64, error) {
	re := regexp.MustCompile(pattern)
	return func(said string) (uint64, error) {
		m := re.FindStringSubmatch(said)
		if m == nil {
			return 0, fmt.Errorf("no closing count in %q", said)
		}
		return strconv.ParseUint(m[1], 10, 64)
	}
}
