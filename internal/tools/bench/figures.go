package main

import (
	"fmt"
	"math"
	"strings"
)

// Figures of the promises and the documents.

// cost returns the CPU time of a packet in the programs of a configuration, in ns.
func (r *results) cost(config, transport string, size int) float64 {
	return r.figure(programCost(config, transport, size), unitNsPacket)
}

// reader returns the CPU time of a process per packet, in ns, at its highest rate without loss.
func (r *results) reader(entrant string, size int) float64 {
	return r.figure(lossless(entrant, size), unitNsPacket)
}

// rate returns the highest rate without loss, in packets per second.
func (r *results) rate(entrant string, size int) float64 {
	return r.figure(lossless(entrant, size), unitPPS)
}

// drained returns a figure of a tool that empties filled rings: by the unit the CPU time per
// packet, in ns, or the packets per second.
func (r *results) drained(tool string, size, rings int, to, unit string) float64 {
	return r.figure((&drainage{size: size, rings: rings, to: to}).benchmark(tool), unit)
}

// preferred returns the transport of the figures that do not name one: ring, if it was measured.
func (r *results) preferred() string {
	if math.IsNaN(r.cost(wholeName, ring, shortSize)) {
		return perf
	}
	return ring
}

// machine describes the machine and its kernel.
func (r *results) machine() string {
	return fmt.Sprintf("%s CPUs %s, %s", r.head["cpus"], r.head["cpu"], r.head["kernel"])
}

// These functions format figures. One that is missing (NaN) becomes noFigure.

const noFigure = "-"

func formatted(format string, x float64) string {
	if math.IsNaN(x) {
		return noFigure
	}
	return fmt.Sprintf(format, x)
}

func nanos(ns float64) string  { return formatted("%.1f ns", ns) }
func micros(ns float64) string { return formatted("%.3f us", ns/1000) }

func mpps(rate float64) string {
	if rate == 0 {
		return "none"
	}
	return formatted("%.3f Mpps", rate/1e6)
}

func percent(part float64) string {
	if part < 0.1 {
		return formatted("%.1f %%", 100*part)
	}
	return formatted("%.0f %%", 100*part)
}

// wrap breaks a text into lines of at most 100 columns.
func wrap(text string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 100 && line != "" {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}
