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
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/thread"
)

// BenchOptions say what to measure.
type BenchOptions struct {
	Variants []Variant
	CPUs     []int         // the CPUs to run on, all at the same time
	Duration time.Duration // CPU time for each variant, on each CPU
	Rounds   int           // into how many rounds Duration is divided, with all variants in each; at least 1
}

// A BenchResult has the figures of one program: medians over the rounds.
type BenchResult struct {
	Name    string  // the variant's; "empty" is a program that does nothing, to show what running any costs
	Packets uint64  // packets sent, warm-up included; a variant counted exactly as many
	Mpps    float64 // million packets per second, of all CPUs together
	Ns      float64 // CPU time per packet in ns, on one CPU
	Spread  float64 // of Ns over the rounds: (largest - smallest) / median

	Instructions, HotPath int // of the loaded program: in all; the most that a common packet runs through; 0 = not known

	Hardware                   bool    // whether Cycles and NativeInstructions are known
	Cycles, NativeInstructions float64 // per packet, in the kernel
}

// Bench runs the variants on the same packets, compares their speed, and checks that each counted
// exactly what was sent. It fails if ctx ends before the last round.
func Bench(ctx context.Context, o BenchOptions) ([]BenchResult, error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	var subjects []*subject
	defer func() {
		for _, s := range subjects {
			s.close()
		}
	}()
	for _, name := range append([]string{protocolsProgEmpty}, names(o.Variants)...) {
		s, err := newSubject(name)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
		if err := s.warmUp(o); err != nil {
			return nil, err
		}
	}
	for range o.Rounds {
		for _, s := range subjects {
			if err := ctx.Err(); err != nil {
				return nil, errors.New("stopped before the end: nothing was measured")
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

func names(variants []Variant) (all []string) {
	for _, v := range variants {
		all = append(all, v.String())
	}
	return all
}

// A subject is one program that is measured.
type subject struct {
	name     string
	maps     protocolMaps
	prog     *ebpf.Program
	all, hot int // see the function instructions

	repeat uint32          // how often each CPU sends one packet in a round
	sent   map[Class]Tally // since the start, the warm-up included
	rounds []benchRound
}

// A benchRound is what all CPUs did in a round.
type benchRound struct {
	mpps, ns float64
	packets  uint64
	work     work
}

func newSubject(name string) (*subject, error) {
	spec, err := protocolsSpec(ProtocolsOptions{})
	if err != nil {
		return nil, err
	}
	s := &subject{name: name, sent: make(map[Class]Tally)}
	if name != protocolsProgEmpty {
		if s.maps.variant, err = ParseVariant(name); err != nil {
			return nil, err
		}
	}
	if s.prog, err = s.maps.load(spec, name); err != nil {
		return nil, errors.Join(support.ExplainLoad("load program "+name, err), s.maps.close())
	}
	if s.all, s.hot, err = instructions(s.prog); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *subject) close() error { return errors.Join(s.prog.Close(), s.maps.close()) }

// warmUp fills the caches, and finds out how many packets make a round as long as o asks for.
func (s *subject) warmUp(o BenchOptions) error {
	s.repeat = 200_000
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
				errs = append(errs, fmt.Errorf("run %s on CPU %d: %w", s.name, cpu, err))
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

// runAll runs all packets on the calling thread. It measures the thread's CPU time, because the
// kernel sleeps before and after the runs of a call, and other threads may want the CPU.
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

// verify compares what was counted with what was sent.
func (s *subject) verify() error {
	if s.name == protocolsProgEmpty {
		return nil
	}
	counted, err := s.maps.read(false, false)
	if err != nil {
		return fmt.Errorf("read the counters of %s: %w", s.name, err)
	}
	for class, sent := range s.sent {
		if got := counted.Class(class); got != sent {
			return fmt.Errorf("%s counted %d packets and %d bytes of %v, and %d and %d were sent: its figures are "+
				"worth nothing; please report this", s.name, got.Packets, got.Bytes, class, sent.Packets, sent.Bytes)
		}
	}
	if len(counted.Classes) != len(s.sent) {
		return fmt.Errorf("%s counted packets that nobody sent: its figures are worth nothing; please report this", s.name)
	}
	return nil
}

func (s *subject) result() BenchResult {
	r := BenchResult{Name: s.name, Instructions: s.all, HotPath: s.hot, Hardware: true}
	for _, sent := range s.sent {
		r.Packets += sent.Packets
	}
	of := func(f func(benchRound) float64) []float64 {
		var values []float64
		for _, round := range s.rounds {
			values = append(values, f(round))
		}
		slices.Sort(values)
		return values
	}
	median := func(sorted []float64) float64 { return sorted[len(sorted)/2] }
	ns := of(func(b benchRound) float64 { return b.ns })
	r.Ns = median(ns)
	r.Spread = (ns[len(ns)-1] - ns[0]) / r.Ns
	r.Mpps = median(of(func(b benchRound) float64 { return b.mpps }))
	r.Cycles = median(of(func(b benchRound) float64 { return float64(b.work.cycles) / float64(b.packets) }))
	r.NativeInstructions = median(of(func(b benchRound) float64 { return float64(b.work.instructions) / float64(b.packets) }))
	for _, round := range s.rounds {
		r.Hardware = r.Hardware && round.work.known
	}
	return r
}
