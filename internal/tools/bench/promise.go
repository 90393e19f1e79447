package main

import (
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A promise is a limit that the project promises to keep, and what was measured for it.
type promise struct {
	what     string
	format   string // of limit and measured
	limit    float64
	atMost   bool // else at least
	measured float64
	unknown  bool // a figure is missing
}

// promises returns the promises for the smallest frames, where the cost per packet matters most.
func promises(sheets []sheet, c costs) []promise {
	var s sheet
	for _, one := range sheets {
		if one.size == testnet.MinFrame {
			s = one
		}
	}
	sink, pass, dump := s.row(sinkName), s.row(passName), s.row(xdpdumpName)
	ofDump, ofDrop, kept := sink.times(dump), sink.times(s.drop), 0.0
	if len(pass.unpaced) > 0 {
		kept = s.kept(pass)
	}
	return []promise{
		{
			what:   "reader CPU per 64-byte packet",
			format: "%.2f us", limit: 0.35, atMost: true,
			measured: sink.cpu, unknown: sink.cpu == 0,
		},
		{
			what:   "--sink: highest rate without loss, of xdpdump's",
			format: "%.1f x", limit: 4,
			measured: ofDump, unknown: ofDump == 0,
		},
		{
			what:   "--sink: highest rate without loss, of the limit XDP_DROP",
			format: "%.0f %%", limit: 30,
			measured: 100 * ofDrop, unknown: ofDrop == 0,
		},
		{
			what:   "XDP_PASS: the traffic's own rate falls by",
			format: "%.0f %%", limit: 20, atMost: true,
			measured: 100 * (1 - kept), unknown: kept == 0,
		},
		{
			what:   "filter tcp port 443: cost per packet over no filter",
			format: "%.1f ns", limit: 8, atMost: true,
			measured: c.filter, unknown: c.filter == 0,
		},
		{
			what:   "--sample 1000 --sink: rate, of the limit XDP_DROP",
			format: "%.0f %%", limit: 85,
			measured: 100 * c.sample1000, unknown: c.sample1000 == 0,
		},
		{
			what:   "stats: cost per packet over an empty program",
			format: "%.1f ns", limit: 15, atMost: true,
			measured: c.stats, unknown: c.stats == 0,
		},
		{
			what:   "count: cost per packet over an empty program",
			format: "%.1f ns", limit: 15, atMost: true,
			measured: c.count, unknown: c.count == 0,
		},
	}
}

// kept says whether the measured value keeps the limit, before rounding.
func (p promise) kept() bool {
	if p.atMost {
		return p.measured <= p.limit
	}
	return p.measured >= p.limit
}

func printPromises(out io.Writer, sheets []sheet, c costs) {
	fmt.Fprintf(out, "\npromised, at %d bytes:\n", wireSize(testnet.MinFrame))
	for _, p := range promises(sheets, c) {
		verdict, measured, bound := "missed", fmt.Sprintf(p.format, p.measured), "at least"
		if p.kept() {
			verdict = "ok"
		}
		if p.unknown {
			verdict, measured = noFigure, "not measured"
		}
		if p.atMost {
			bound = "at most"
		}
		fmt.Fprintf(out, "%-7s %-57s %12s, %s %s\n", verdict, p.what, measured, bound, fmt.Sprintf(p.format, p.limit))
	}
}
