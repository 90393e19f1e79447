package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A tool is a capture program and how to run it: with its default options, and whole packets
// written to nowhere. The method to changes the file.
type tool struct {
	name string
	args []string // its command line

	// verdict is the XDP verdict on packets beside the tool. The traffic without the tool is
	// measured under an XDP program that only returns this verdict.
	verdict xdp.Verdict

	// onStack: the tool captures in the kernel's stack and has no XDP program. An XDP program that
	// only returns the verdict is then attached, because the generator needs one.
	onStack bool

	// selects: the tool is an xdpcap that captures a part of the packets. Its lost packets are then
	// taken from its own counts.
	selects bool

	// ready are words that the tool prints once it captures.
	ready string

	// handOver is the longest time until the tool has read a packet. The kernel hands the last
	// block of a ring to tcpdump and its like only after that time, and they lose the block if they
	// are ended earlier.
	handOver time.Duration

	file   string   // that it writes, and that is removed afterwards; "": nowhere
	stdout *os.File // its standard output; nil: kept as the process's output

	count *regexp.Regexp // finds the tool's own count in its output; nil: it prints none
}

// closingCount finds the count that tcpdump and xdpcap print at the end.
var closingCount = regexp.MustCompile(`(?m)^(\d+) packets? captured`)

// nowhere is the file that takes whatever is written to it.
const nowhere = "/dev/null"

// to returns the tool with another file to write.
func (t tool) to(path string) tool {
	t.args = slices.Clone(t.args)
	for i, arg := range t.args {
		if arg == nowhere {
			t.args[i] = path
		}
	}
	if path != nowhere && path != "-" {
		t.file = path
	}
	return t
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

	// These have one transport, ring.
	lowprecSinkName = "xdpcap --sink, lowprec" // -j host_lowprec
	roomName        = "xdpcap --sink, -B 64M"
)

func sinkName(transport string) string        { return "xdpcap --sink, " + transport }
func ownName(transport string) string         { return "xdpcap, " + transport }
func inTraffic(what, transport string) string { return what + ", " + transport }

// otherNames are the tools beside which xdpcap is measured.
var otherNames = []string{xdpdumpName, tcpdumpName, dumpcapName, netsniffName}

// others returns the other tools.
func others() []tool {
	all := []tool{
		{name: xdpdumpName, args: []string{"xdpdump", "-i", rxName, "--load-xdp-program", "-w", nowhere}},
		{name: tcpdumpName, args: []string{"tcpdump", "-i", rxName, "-w", nowhere}, onStack: true},
		// dumpcap prints "Capturing on" too early.
		{name: dumpcapName, args: []string{"dumpcap", "-i", rxName, "-q", "-w", nowhere}, onStack: true,
			ready: "File: ", count: regexp.MustCompile(`Packets captured: (\d+)`)},
		// -A, -N and -Q keep it from changing the machine's settings, -s from printing packets. It
		// counts the packets that it has read.
		{name: netsniffName, args: []string{"netsniff-ng", "--in", rxName, "--out", nowhere, "-s", "-A", "-N", "-Q"}, onStack: true,
			ready: "Running!", count: regexp.MustCompile(`(\d+)\s+packets incoming`)},
	}
	for i := range all {
		t := &all[i]
		t.verdict, t.handOver = xdp.Pass, 1200*time.Millisecond
		if t.ready == "" {
			t.ready, t.count = listening, closingCount
		}
	}
	return all
}

// pick returns the tools with these names, in the order of the names.
func pick(all []tool, names ...string) (picked []tool) {
	for _, name := range names {
		for _, t := range all {
			if t.name == name {
				picked = append(picked, t)
			}
		}
	}
	return picked
}

// program returns the tool's name without flags.
func (t tool) program() string { return filepath.Base(t.args[0]) }

// commandLine returns the tool's command line as a user would type it. The file's name differs in
// each run, and is replaced by FILE.
func (t tool) commandLine() string {
	line := t.program() + " " + strings.Join(t.args[1:], " ")
	if t.file != "" {
		line = strings.ReplaceAll(line, t.file, "FILE")
	}
	return line
}

// captured returns the tool's own count of captured packets, from its output.
func (t tool) captured(output string) (uint64, error) {
	m := t.count.FindStringSubmatch(output)
	if m == nil {
		return 0, fmt.Errorf("no closing count in %q", output)
	}
	return strconv.ParseUint(m[1], 10, 64)
}
