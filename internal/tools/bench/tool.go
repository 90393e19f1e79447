package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A tool is a capture program and how to run it: with its default options, writing whole packets to
// /dev/null.
type tool struct {
	name string
	args []string // its command line

	// verdict is what happens to a packet under the tool. The traffic without the tool is measured
	// under an XDP program that only returns this verdict.
	verdict xdp.Verdict

	// onStack says that the tool captures in the kernel's stack and has no XDP program. An empty
	// XDP program with the verdict is then attached, because the generator needs one.
	onStack bool

	// ready is a part of what the tool prints once it captures.
	ready string

	// handOver is the longest time until the tool has read a packet. tcpdump and dumpcap see the
	// last block of their ring only then, and lose it if they are ended earlier.
	handOver time.Duration

	// captured returns the tool's own count, which it finds in the output.
	captured func(said string) (uint64, error)
}

func tools(xdpcap string) []tool {
	const dev = rxName
	return []tool{
		{
			name:     sinkName,
			args:     []string{xdpcap, "-i", dev, "--sink", "-w", "/dev/null"},
			verdict:  xdp.Drop,
			ready:    "listening on",
			handOver: 250 * time.Millisecond,
			captured: fromLine(`(?m)^(\d+) packets? captured`),
		},
		{
			name:     passName,
			args:     []string{xdpcap, "-i", dev, "-w", "/dev/null"},
			verdict:  xdp.Pass,
			ready:    "listening on",
			handOver: 250 * time.Millisecond,
			captured: fromLine(`(?m)^(\d+) packets? captured`),
		},
		{
			name:     xdpdumpName,
			args:     []string{"xdpdump", "-i", dev, "--load-xdp-program", "-w", "/dev/null"},
			verdict:  xdp.Pass,
			ready:    "listening on",
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`(?m)^(\d+) packets? captured`),
		},
		{
			name:     "tcpdump",
			args:     []string{"tcpdump", "-i", dev, "-w", "/dev/null"},
			verdict:  xdp.Pass,
			onStack:  true,
			ready:    "listening on",
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`(?m)^(\d+) packets? captured`),
		},
		{
			name:     "dumpcap",
			args:     []string{"dumpcap", "-i", dev, "-q", "-w", "/dev/null"},
			verdict:  xdp.Pass,
			onStack:  true,
			ready:    "File: ", // dumpcap prints "Capturing on" too early
			handOver: 1200 * time.Millisecond,
			captured: fromLine(`Packets captured: (\d+)`),
		},
	}
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
