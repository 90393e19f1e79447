package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An AttachedBench has what the programs cost at the XDP hook of an interface.
type AttachedBench struct {
	Interface string // its own name, also if the caller gave an alternative one
	Mode      xdp.Mode
	Results   []AttachedResult // in the order of those of Bench
}

// An AttachedResult has the figures of one program: medians over the rounds that had packets.
type AttachedResult struct {
	BenchSubject
	Packets uint64  // packets that came while the program was attached
	Mpps    float64 // million packets per second, on all CPUs together
	Ns      float64 // run time per packet in ns by the kernel's counters, including the cost of their clock
	Spread  float64 // of Ns over the rounds: (largest - smallest) / median
	CPU     float64 // run time per second, all CPUs together: 0.01 = 1 % of one CPU
}

// BenchAttached measures the programs at an interface's XDP hook, with the packets that come in
// there. All of them pass. It sends nothing. The programs take turns: each replaces the one before,
// so that every packet runs through one of them. o.CPUs is ignored: the programs run where packets
// are received, each for o.Duration by the clock.
//
// The error is an ErrRunsProgram if the interface already runs a program, and an ErrNoTraffic if no
// packet came in. It needs Linux 5.8.
func BenchAttached(ctx context.Context, iface string, mode xdp.Mode, o BenchOptions) (*AttachedBench, error) {
	if o.Flows {
		return nil, fmt.Errorf("measure on %s: flows cannot be measured on an interface, because that program changes the packets", iface)
	}
	subjects, err := openSubjects(o.subjects())
	if err != nil {
		return nil, err
	}
	defer closeSubjects(subjects)
	ifi, err := xdp.EthernetInterface(iface)
	if err != nil {
		return nil, err
	}
	if len(ifi.Programs) > 0 {
		return nil, xdp.Kind(ErrRunsProgram, "%s already runs XDP program %s, and the variants need its place", ifi.Name, ifi.Programs[0].WithOwner())
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, support.ExplainLoad("switch on the kernel's run-time counters", err)
	}
	defer stats.Close()
	b := &AttachedBench{Interface: ifi.Name}
	l, got, err := xdp.Attach(subjects[0].prog, ifi, mode)
	if err != nil {
		return nil, err
	}
	b.Mode = got
	rounds, err := takeTurns(ctx, l, subjects, o)
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, fmt.Errorf("measure on %s: %w", ifi.Name, err)
	}
	for i, s := range subjects {
		if len(rounds[i]) == 0 {
			return nil, xdp.Kind(ErrNoTraffic, "no packet came in on %s in the %v of %s: there is nothing to measure",
				ifi.Name, o.Duration, s.program())
		}
		b.Results = append(b.Results, newAttachedResult(s.BenchSubject, rounds[i]))
	}
	return b, nil
}

// An attachedRound is what happened in one turn of a program.
type attachedRound struct {
	RuntimeCounts
	took time.Duration
}

// takeTurns attaches each program for its turn in every round, and returns each program's rounds
// that had packets.
func takeTurns(ctx context.Context, l link.Link, subjects []*subject, o BenchOptions) ([][]attachedRound, error) {
	rounds := make([][]attachedRound, len(subjects))
	for range o.Rounds {
		for i, s := range subjects {
			if err := l.Update(s.prog); err != nil {
				return nil, fmt.Errorf("replace the attached program by %s: %w", s.program(), err)
			}
			before, err := count(s.prog)
			if err != nil {
				return nil, err
			}
			began := time.Now()
			select {
			case <-ctx.Done():
				return nil, errBenchStopped
			case <-time.After(o.Duration / time.Duration(o.Rounds)):
			}
			now, err := count(s.prog)
			if err != nil {
				return nil, err
			}
			if did := now.minus(before); did.Runs > 0 {
				rounds[i] = append(rounds[i], attachedRound{did, time.Since(began)})
			}
		}
	}
	return rounds, nil
}

func newAttachedResult(b BenchSubject, rounds []attachedRound) AttachedResult {
	r := AttachedResult{BenchSubject: b}
	for _, round := range rounds {
		r.Packets += round.Runs
	}
	r.Ns, r.Spread = median(rounds, func(a attachedRound) float64 { return float64(a.Time.Nanoseconds()) / float64(a.Runs) })
	r.Mpps, _ = median(rounds, func(a attachedRound) float64 { return float64(a.Runs) / 1e6 / a.took.Seconds() })
	r.CPU, _ = median(rounds, func(a attachedRound) float64 { return a.Time.Seconds() / a.took.Seconds() })
	return r
}
