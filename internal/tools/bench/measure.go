package main

import (
	"context"
	"os/exec"
	"slices"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// frameSizes are the lengths of frames as programs see them, without the checksum: of 64 bytes, the
// shortest, and of 1518 bytes, the longest for an MTU of 1500.
var frameSizes = []int{testnet.MinFrame, 1514}

const (
	// How often everything is measured in turn. Rates that are compared are thus measured seconds
	// apart, so that a machine which is faster for a while is faster for all of them. The median of
	// the ratios counts.
	rounds = 5

	// How often CPU time is measured, of which the median counts, and at which part of the tool's
	// own highest rate.
	cpuRepeats = 3
	cpuLoad    = 0.8

	// smallLoss is the part of the packets up to which a loss may be an accident, such as a reader
	// that did not get its CPU for 20 ms. Up to it a rate is tried again, trials times in all.
	smallLoss = 0.03
	trials    = 3
)

// A sheet has the figures for one frame size.
type sheet struct {
	size       int
	drop, pass row // the traffic without a tool
	rows       []row
}

// A row has the figures of one tool, or of the traffic without a tool.
type row struct {
	tool    *tool
	missing error // why there are no figures, nil if there are

	unpaced []float64 // what rate the traffic reached, packets per second, round by round
	lossy   bool      // some of it was lost
	rate    float64   // highest without loss, packets per second; 0: always loss
	cpu     float64   // us per captured packet at cpuLoad of that rate; 0: no such rate
}

// times returns how many times the other's highest rate without loss this one's is, or 0 if one of
// them is not known.
func (r row) times(other row) float64 {
	switch {
	case r.rate == 0 || other.rate == 0:
		return 0
	case r.lossy || other.lossy:
		return r.rate / other.rate
	}
	return medianRatio(r.unpaced, other.unpaced)
}

// kept returns the traffic's rate with the tool, divided by the rate without it under the same
// verdict.
func (s *sheet) kept(r row) float64 {
	if r.tool.verdict == xdp.Drop {
		return medianRatio(r.unpaced, s.drop.unpaced)
	}
	return medianRatio(r.unpaced, s.pass.unpaced)
}

func measure(ctx context.Context, n *network, all []tool, size int) (sheet, error) {
	s := sheet{size: size}
	for i := range all {
		_, err := exec.LookPath(all[i].args[0])
		s.rows = append(s.rows, row{tool: &all[i], missing: err})
	}
	for round := range rounds {
		progress("%d bytes, round %d of %d", wireSize(size), round+1, rounds)
		if err := s.round(ctx, n); err != nil {
			return s, err
		}
	}
	s.drop.rate, s.pass.rate = median(s.drop.unpaced), median(s.pass.unpaced)
	for i := range s.rows {
		r := &s.rows[i]
		if r.missing == nil {
			r.missing = r.finish(ctx, n, size)
		}
		if err := ctx.Err(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// round measures unpaced traffic without a tool, and then with each tool.
func (s *sheet) round(ctx context.Context, n *network) error {
	drop, err := n.withoutTool(ctx, xdp.Drop, s.size)
	if err != nil {
		return err
	}
	pass, err := n.withoutTool(ctx, xdp.Pass, s.size)
	if err != nil {
		return err
	}
	s.drop.unpaced, s.pass.unpaced = append(s.drop.unpaced, drop), append(s.pass.unpaced, pass)
	for i := range s.rows {
		r := &s.rows[i]
		if r.missing != nil {
			continue
		}
		t, err := r.try(ctx, n, s.size, 0)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.missing = err
		r.unpaced = append(r.unpaced, t.rate)
		r.lossy = r.lossy || !t.lossless()
	}
	return nil
}

// finish measures the highest rate without loss, if the rounds had loss, and the CPU time.
func (r *row) finish(ctx context.Context, n *network, size int) (err error) {
	r.rate = median(r.unpaced)
	if r.lossy {
		r.rate, err = highestRate(r.rate, func(rate float64) (float64, bool, error) {
			progress("%d bytes, %s: %s", wireSize(size), r.tool.name, mpps(rate))
			t, err := r.try(ctx, n, size, rate)
			return t.rate, t.lossless(), err
		})
	}
	if err != nil || r.rate == 0 {
		return err
	}
	var cpu []float64
	for range cpuRepeats {
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

// try sends at a rate, 0 for as many packets as it can, and again after a small loss.
func (r *row) try(ctx context.Context, n *network, size int, rate float64) (t trial, err error) {
	for range trials {
		t, err = n.withTool(ctx, r.tool, size, rate)
		if err != nil || t.lossless() || float64(t.sent-t.captured) > smallLoss*float64(t.sent) {
			break
		}
	}
	return t, err
}

// wireSize returns a frame's size on the wire, with its checksum.
func wireSize(size int) int { return size + 4 }

// median returns the median, 0 if there are no values.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[len(sorted)/2]
}

// medianRatio returns the median of xs[i] / ys[i], 0 if there are no values.
func medianRatio(xs, ys []float64) float64 {
	var ratios []float64
	for i := range min(len(xs), len(ys)) {
		ratios = append(ratios, xs[i]/ys[i])
	}
	return median(ratios)
}
