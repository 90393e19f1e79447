package meter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/thread"
)

// BenchOptions say what to measure.
type BenchOptions struct {
	Variants []Variant // of BenchVariants
	Sizes    bool      // also measure each variant while it counts packet sizes; Four cannot
	Flows    bool      // also measure each variant while it counts flows; Four and BenchAttached cannot
	Sample   uint32    // also measure each variant while it counts one packet in Sample; 0 = no

	CPUs     []int         // the CPUs to run on, all at the same time
	Duration time.Duration // CPU time for each program, on each CPU
	Rounds   int           // rounds that Duration is divided into; each runs all programs; at least 1
}

// A BenchSubject tells what a program does.
type BenchSubject struct {
	Empty   bool // it does nothing, to show the cost of running any program; the other fields are zero
	Variant Variant
	Sizes   bool // it counts sizes, too
	Flows   BenchFlows
	Sample  uint32 // it counts one packet in Sample, at random; 0 = all
}

// BenchFlows tells, for a program that also counts flows, which flows its packets belong to.
type BenchFlows int

const (
	NoFlows  BenchFlows = iota // it does not count flows
	FewFlows                   // all packets are of flows that have entries in the table
	NewFlows                   // every packet is of a flow that has to take an entry
)

// A BenchResult has the figures of one program: medians over the rounds.
type BenchResult struct {
	BenchSubject
	Packets uint64  // packets sent, warm-up included; the program's counters were compared with them
	Mpps    float64 // million packets per second, of all CPUs together
	Ns      float64 // CPU time per packet in ns, on one CPU
	Spread  float64 // of Ns over the rounds: (largest - smallest) / median

	Instructions, HotPath int // of the loaded program: all; the most that a common packet runs; 0 = not known

	Hardware                   bool    // whether Cycles and NativeInstructions are known
	Cycles, NativeInstructions float64 // per packet, in the kernel
}

// subjects lists what is measured, in the order of the results.
func (o BenchOptions) subjects() []BenchSubject {
	list := []BenchSubject{{Empty: true}}
	for _, v := range o.Variants {
		list = append(list, BenchSubject{Variant: v})
		if o.Sizes && v != Four {
			list = append(list, BenchSubject{Variant: v, Sizes: true})
		}
		if o.Flows && v != Four {
			list = append(list, BenchSubject{Variant: v, Flows: FewFlows}, BenchSubject{Variant: v, Flows: NewFlows})
		}
		if o.Sample > 0 {
			list = append(list, BenchSubject{Variant: v, Sample: o.Sample})
		}
	}
	return list
}

// Took returns about how long it takes to measure all programs, if each takes `longer` more than
// Duration.
func (o BenchOptions) Took(longer time.Duration) time.Duration {
	return (time.Duration(len(o.subjects())) * (o.Duration + longer)).Round(time.Second)
}

// Bench runs the variants on the same packets and compares their speed. It checks that each counted
// exactly what was sent, or that a sample is as large as chance makes it. It fails if ctx ends
// before the last round.
func Bench(ctx context.Context, o BenchOptions) ([]BenchResult, error) {
	subjects, err := openSubjects(o.subjects())
	if err != nil {
		return nil, err
	}
	defer closeSubjects(subjects)
	for _, s := range subjects {
		if err := s.warmUp(o); err != nil {
			return nil, err
		}
	}
	for range o.Rounds {
		for _, s := range subjects {
			if ctx.Err() != nil {
				return nil, errBenchStopped
			}
			if err := s.round(o.CPUs); err != nil {
				return nil, err
			}
		}
	}
	var results []BenchResult
	for _, s := range subjects {
		if err := s.verify(); err != nil {
			return nil, err
		}
		results = append(results, s.result())
	}
	return results, nil
}

var errBenchStopped = errors.New("stopped before the end: nothing was measured")

// A benchRound holds what all CPUs did in one round.
type benchRound struct {
	mpps, ns float64
	packets  uint64
	work     work
}

// warmUp fills the caches, and finds how many packets a round of the requested duration has.
func (s *subject) warmUp(o BenchOptions) error {
	s.repeat = 50_000
	if err := s.round(o.CPUs); err != nil {
		return err
	}
	perCall := float64(o.Duration.Nanoseconds()) / float64(o.Rounds*len(benchPackets))
	s.repeat = uint32(min(max(perCall/s.rounds[0].ns, 1), 1<<31))
	s.rounds = nil
	return nil
}

// round runs all packets on all CPUs. The CPUs begin each packet together.
func (s *subject) round(cpus []int) error {
	all := benchRound{work: work{known: true}}
	var mu sync.Mutex
	var threads sync.WaitGroup
	var errs []error
	steps := newBarrier(len(cpus))
	for _, cpu := range cpus {
		threads.Go(func() {
			var spent time.Duration
			var did work
			err := thread.Quiet(cpu, func() (err error) {
				hw := openHardware()
				defer hw.close()
				spent, did, err = s.runAll(hw, steps)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				steps.cancel()
				errs = append(errs, fmt.Errorf("run %s on CPU %d: %w", s.program(), cpu, err))
				return
			}
			packets := uint64(s.repeat) * uint64(len(benchPackets))
			all.packets += packets
			all.mpps += float64(packets) / float64(spent.Microseconds())
			all.ns += float64(spent.Nanoseconds()) / float64(packets) / float64(len(cpus))
			all.work.cycles += did.cycles
			all.work.instructions += did.instructions
			all.work.known = all.work.known && did.known
		})
	}
	threads.Wait()
	if len(errs) > 0 {
		return errs[0]
	}
	for _, p := range benchPackets {
		n := uint64(s.repeat) * uint64(len(cpus))
		was := s.sent[p.class]
		was.Add(Tally{n, n * uint64(len(p.data))})
		s.sent[p.class] = was
	}
	s.rounds = append(s.rounds, all)
	return nil
}

// runAll runs all packets on the calling thread. It measures that thread's CPU time, because the
// kernel sleeps before and after the runs of a call, and because other threads may want the CPU.
func (s *subject) runAll(hw hardware, steps *barrier) (spent time.Duration, did work, err error) {
	did.known = true
	for _, p := range benchPackets {
		steps.wait()
		before, err := clock.ThreadTime()
		if err != nil {
			return 0, did, err
		}
		at := hw.read()
		if _, err := s.prog.Run(&ebpf.RunOptions{Data: p.data, Repeat: s.repeat}); err != nil {
			return 0, did, err
		}
		work := hw.read().since(at)
		after, err := clock.ThreadTime()
		if err != nil {
			return 0, did, err
		}
		spent += after - before
		did.cycles += work.cycles
		did.instructions += work.instructions
		did.known = did.known && work.known
	}
	return spent, did, nil
}

func (s *subject) result() BenchResult {
	r := BenchResult{BenchSubject: s.BenchSubject, Instructions: s.all, HotPath: s.hot, Hardware: true}
	for _, sent := range s.sent {
		r.Packets += sent.Packets
	}
	r.Ns, r.Spread = median(s.rounds, func(b benchRound) float64 { return b.ns })
	r.Mpps, _ = median(s.rounds, func(b benchRound) float64 { return b.mpps })
	r.Cycles, _ = median(s.rounds, func(b benchRound) float64 { return float64(b.work.cycles) / float64(b.packets) })
	r.NativeInstructions, _ = median(s.rounds, func(b benchRound) float64 { return float64(b.work.instructions) / float64(b.packets) })
	for _, round := range s.rounds {
		r.Hardware = r.Hardware && round.work.known
	}
	return r
}

// median returns the median of a figure over the rounds (at least one), and its spread: (largest -
// smallest) / median.
func median[R any](rounds []R, figure func(R) float64) (middle, spread float64) {
	var values []float64
	for _, r := range rounds {
		values = append(values, figure(r))
	}
	slices.Sort(values)
	middle = values[len(values)/2]
	if middle > 0 {
		spread = (values[len(values)-1] - values[0]) / middle
	}
	return middle, spread
}
