package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Names of the rows that other rows are compared with.
const (
	sinkName    = "xdpcap --sink"
	passName    = "xdpcap"
	xdpdumpName = "xdpdump"
)

const (
	lineFormat = "%-21s %12s %9s %9s   %10s %9s   %9s\n"
	noFigure   = "-"
)

// print prints the figures as a table, and why some are missing.
func (s *sheet) print(out io.Writer) {
	fmt.Fprintf(out, "\n"+lineFormat, fmt.Sprintf("%d-byte frames", wireSize(s.size)),
		"highest rate", "of the", "times", "reader CPU", "times", "traffic")
	fmt.Fprintf(out, lineFormat, "", "without loss", "limit", xdpdumpName, "per packet", passName, "keeps")
	fmt.Fprintln(out, strings.Repeat("-", 93))

	dump := s.row(xdpdumpName)
	for _, limit := range []struct {
		name string
		row
	}{{"no capture, XDP_DROP", s.drop}, {"no capture, XDP_PASS", s.pass}} {
		fmt.Fprintf(out, lineFormat, limit.name, mpps(limit.rate), percent(limit.times(s.drop)), times(limit.times(dump)),
			noFigure, noFigure, noFigure)
	}
	for _, r := range s.rows {
		fmt.Fprintf(out, lineFormat, r.tool.name, mpps(r.rate), percent(r.times(s.drop)), times(r.times(dump)),
			micros(r.cpu), times(ratio(r.cpu, s.row(passName).cpu)), percent(s.kept(r)))
	}
	for _, r := range s.rows {
		if r.missing != nil {
			fmt.Fprintf(out, "%s: %s\n", r.tool.name, oneLine(r.missing.Error()))
		}
	}
}

// row returns the figures of the tool of this name, all 0 if there is none.
func (s *sheet) row(name string) row {
	for _, r := range s.rows {
		if r.tool.name == name {
			return r
		}
	}
	return row{}
}

// printNotes says what the columns are and how the tools were run.
func printNotes(out io.Writer, all []tool) {
	fmt.Fprintf(out, `
highest rate without loss: the tool counted every packet that was sent, for %v. That of unpaced
    traffic, or found by bisection of it. The limit is XDP_DROP without a capture.
reader CPU: user and system time of the tool's process, at %.0f %% of its own highest rate.
traffic keeps: the rate of unpaced traffic with the tool, over that without, under the same verdict.
    Under XDP_PASS the kernel routes it on to another interface.
Unpaced traffic is measured in %d rounds, everything in turn, and compared round by round. Medians.
All tools write whole packets to /dev/null, with their default buffers:
`, runTime, 100*cpuLoad, rounds)
	for _, t := range all {
		under := "XDP_PASS, its own"
		switch {
		case t.onStack:
			under = "in the stack, above an empty XDP_PASS"
		case t.verdict == xdp.Drop:
			under = "XDP_DROP, its own"
		}
		fmt.Fprintf(out, "    %-52s %s\n", t.commandLine(), under)
	}
}

// These functions format the figures of the table. A figure of 0 is missing and becomes noFigure.

func mpps(rate float64) string {
	if rate == 0 {
		return noFigure
	}
	return fmt.Sprintf("%.3f Mpps", rate/1e6)
}

func percent(part float64) string {
	if part == 0 {
		return noFigure
	}
	digits := 0
	if part < 0.1 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %%", digits, 100*part)
}

func times(x float64) string {
	if x == 0 {
		return noFigure
	}
	return fmt.Sprintf("%.1f x", x)
}

// ratio returns x / of, 0 if either is 0.
func ratio(x, of float64) float64 {
	if of == 0 {
		return 0
	}
	return x / of
}

func micros(us float64) string {
	if us == 0 {
		return noFigure
	}
	return fmt.Sprintf("%.2f us", us)
}
