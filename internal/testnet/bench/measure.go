package main

import (
	"context"
	"os/exec"
	"slices"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// frameSizes are what a program sees of frames of 64 bytes, the shortest, and
// 1518 bytes, the longest of an MTU of 1500, less their checksums.
var frameSizes = []int{testnet.MinFrame, 1514}

const (
	// Of what noise disturbs, the median counts: of the CPU time, and of the
	// slow-down, which is a ratio of two rates and noisier.
	repeats     = 3
	slowRepeats = 3

	// cpuLoad is the load at which CPU time is taken, as a part of the tool's
	// own highest rate.
	cpuLoad = 0.8

	// smallLoss is the part of the packets up to which a loss may be an
	// accident of the machine, a reader that did not get its CPU for 20 ms: the
	// rate gets up to so many trials.
	smallLoss = 0.03
	trials    = 3
)

// A sheet is the figures for one frame size.
type sheet struct {
	size   int
	limits limits
	rows   []row
}

// limits are the rates of the traffic without a tool, under each verdict, in
// packets per second.
type limits map[testnet.Action][]float64

func (l limits) rate(verdict testnet.Action) float64 { return median(l[verdict]) }

// measure measures once more.
func (l limits) measure(ctx context.Context, n *network, verdict testnet.Action, size int) (float64, error) {
	rate, err := n.withoutTool(ctx, verdict, size)
	if err == nil {
		l[verdict] = append(l[verdict], rate)
	}
	return rate, err
}

// A row is the figures of one tool.
type row struct {
	tool    *tool
	missing error // why there are no figures, nil if there are

	rate float64 // highest without loss, packets per second; 0: always loss
	cpu  float64 // us per captured packet at cpuLoad of that rate; 0: no such rate
	kept float64 // the traffic's own rate, as a part of that without the tool
}

func measure(ctx context.Context, n *network, all []tool, size int) (sheet, error) {
	s := sheet{size: size, limits: limits{}}
	for range repeats {
		progress("%d bytes, without a tool", wireSize(size))
		for _, verdict := range []testnet.Action{testnet.Drop, testnet.Pass} {
			if _, err := s.limits.measure(ctx, n, verdict, size); err != nil {
				return s, err
			}
		}
	}
	for i := range all {
		r := row{tool: &all[i]}
		if _, r.missing = exec.LookPath(r.tool.args[0]); r.missing == nil {
			r.missing = r.measure(ctx, n, s.limits, size)
		}
		if err := ctx.Err(); err != nil {
			return s, err
		}
		s.rows = append(s.rows, r)
	}
	return s, nil
}

// measure fills in the figures.
func (r *row) measure(ctx context.Context, n *network, l limits, size int) error {
	top, lossless, err := r.slowDown(ctx, n, l, size)
	if err != nil {
		return err
	}
	r.rate = top
	if !lossless {
		r.rate, err = highestRate(top, func(rate float64) (float64, bool, error) {
			return r.try(ctx, n, size, rate)
		})
	}
	if err != nil || r.rate == 0 {
		return err
	}
	var cpu []float64
	for range repeats {
		progress("%d bytes, %s: CPU time", wireSize(size), r.tool.name)
		t, err := n.withTool(ctx, r.tool, size, cpuLoad*r.rate)
		if err != nil {
			return err
		}
		cpu = append(cpu, t.cpuPerPacket())
	}
	r.cpu = median(cpu)
	return nil
}

// slowDown compares the traffic's own rate with and without the tool, one
// right after the other so that the machine's drift cancels out. It returns
// the rate with the tool, and whether that got all packets each time.
func (r *row) slowDown(ctx context.Context, n *network, l limits, size int) (top float64, lossless bool, err error) {
	var kept, with []float64
	lossless = true
	for range slowRepeats {
		progress("%d bytes, %s: slow-down", wireSize(size), r.tool.name)
		alone, err := l.measure(ctx, n, r.tool.verdict, size)
		if err != nil {
			return 0, false, err
		}
		t, err := n.withTool(ctx, r.tool, size, 0)
		if err != nil {
			return 0, false, err
		}
		kept = append(kept, t.rate/alone)
		with = append(with, t.rate)
		lossless = lossless && t.lossless()
	}
	r.kept = median(kept)
	return median(with), lossless, nil
}

// try tries a rate, after a small loss again.
func (r *row) try(ctx context.Context, n *network, size int, rate float64) (real float64, lossless bool, err error) {
	for range trials {
		progress("%d bytes, %s: %s", wireSize(size), r.tool.name, mpps(rate))
		t, err := n.withTool(ctx, r.tool, size, rate)
		if err != nil {
			return 0, false, err
		}
		if t.lossless() {
			return t.rate, true, nil
		}
		if float64(t.sent-t.captured) > smallLoss*float64(t.sent) {
			break
		}
	}
	return 0, false, nil
}

// wireSize is a frame's size on the wire, with its checksum.
func wireSize(size int) int { return size + 4 }

// median is 0 of nothing.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[len(sorted)/2]
}
