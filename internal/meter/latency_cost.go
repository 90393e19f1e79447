package meter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A ProbeCost is how much time the probes take and how exact they are. Both are medians of several
// rounds.
type ProbeCost struct {
	Added time.Duration // the time that the probes add to each packet
	Floor time.Duration // the run time that they measure for an empty program
}

const (
	costRounds = 9
	costRuns   = 20000
)

// MeasureProbeCost runs the probes of OpenLatency on an empty program, on this CPU, without
// touching any traffic. It takes about 50 ms.
func MeasureProbeCost() (cost ProbeCost, err error) {
	l, err := newLatency()
	if err != nil {
		return cost, err
	}
	var probes *attach.Attachment
	defer func() { err = errors.Join(err, probes.Close(), l.Close()) }()
	nothing, err := l.load(latencyProgXdpcapNothing)
	if err != nil {
		return cost, support.ExplainLoad("load an empty program", err)
	}
	defer nothing.Close()
	bare, err := medianRun(nothing)
	if err != nil {
		return cost, err
	}
	const loopback = 1 // BPF_PROG_RUN makes packets that came in on this interface
	target := xdp.Target{Program: xdp.Program{Name: latencyProgXdpcapNothing}, Prog: nothing, Function: latencyProgXdpcapNothing}
	probes, err = l.attachTo(target, xdp.Interface{Index: loopback})
	if err != nil {
		return cost, err
	}
	probed, err := medianRun(nothing)
	if err != nil {
		return cost, err
	}
	c, err := l.Read()
	if err != nil {
		return cost, err
	}
	total := c.Total()
	return ProbeCost{Added: probed - bare, Floor: total.Quantile(0.5)}, nil
}

// medianRun returns the median run time of a program.
func medianRun(prog *ebpf.Program) (time.Duration, error) {
	var rounds [costRounds]time.Duration
	for i := range rounds {
		_, took, err := prog.Benchmark(make([]byte, 64), costRuns, nil)
		if err != nil {
			return 0, fmt.Errorf("run an empty program: %w", err)
		}
		rounds[i] = took
	}
	slices.Sort(rounds[:])
	return rounds[costRounds/2], nil
}
