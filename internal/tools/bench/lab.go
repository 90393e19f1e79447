package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A lab is where XDP programs are run by BPF_PROG_RUN, which needs no traffic.
type lab struct {
	*network
	// empty is attached to a pair of its own: the kernel starts an attached program at once, but
	// waits some milliseconds before it runs another one.
	empty *testnet.Receiver
	runs  int // how often a program is run for a line
}

func newLab(opts networkOptions, runs int) (l *lab, err error) {
	l = &lab{runs: runs}
	if l.network, err = newNetwork(opts); err != nil {
		return nil, err
	}
	spare, err := testnet.NewPair(testnet.PairOptions{})
	if err == nil {
		l.later(spare.Close)
		l.empty, err = l.attach(spare, xdp.Drop)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// How much a ring holds by default, and which part of it is filled at a time.
const (
	ringBytes = 8 << 20
	ringPart  = 0.4
	// mostRepeat is the most packets at a time if they do not fill a ring.
	mostRepeat = 500_000
	// recordBytes is the most that a record has besides the packet: a packet is padded to 8 bytes.
	recordBytes = recordExtra + 7
)

// repeatFor returns how many packets fill a part of a ring, if a part of them goes there.
func repeatFor(size int, kept float64) int {
	if kept == 0 {
		return mostRepeat
	}
	return int(min(ringPart*ringBytes/float64(size+recordBytes)/kept, mostRepeat))
}

// timeRun runs a program in a namespace on a CPU by BPF_PROG_RUN and returns the thread's CPU time
// per packet in ns. ready is called just before.
func timeRun(p *ebpf.Program, in *testnet.Namespace, cpu int, opts ebpf.RunOptions, ready func()) (ns float64, err error) {
	err = machine.Quiet(cpu, func() error {
		return in.Do(func() error {
			ready()
			before, err := machine.ThreadTime()
			if err != nil {
				return err
			}
			if _, err := p.Run(&opts); err != nil {
				return err
			}
			after, err := machine.ThreadTime()
			ns = float64(after-before) / float64(opts.Repeat)
			return err
		})
	})
	return ns, err
}

// runOn runs a program on CPUs at the same time, and returns the sum of their rates.
func (l *lab) runOn(cpus int, prog *ebpf.Program, frame []byte, repeat int) (rate float64, err error) {
	var ready atomic.Int32
	var all sync.WaitGroup
	ns, errs := make([]float64, cpus), make([]error, cpus)
	for cpu := range cpus {
		all.Go(func() {
			ns[cpu], errs[cpu] = timeRun(prog, l.pair.Rx, cpu, ebpf.RunOptions{Data: frame, Repeat: uint32(repeat)}, func() {
				// Quiet's documentation says why this loop must call something.
				for ready.Add(1); int(ready.Load()) < cpus; {
					runtime.Gosched()
				}
			})
		})
	}
	all.Wait()
	for _, n := range ns {
		rate += 1e9 / n
	}
	return rate, errors.Join(errs...)
}

// A subject is a program whose cost is measured.
type subject struct {
	prog, base *ebpf.Program // the cost is the difference between prog and base
	frame      []byte
	context    []byte   // a struct xdp_md, or nil
	process    *process // whose reader drains the rings, or nil
	repeat     int      // packets at a time
}

// cost compares the two programs repeatedly, and waits after each run until the rings are empty. If
// packets were lost all the same, it starts over with fewer at a time.
func (l *lab) cost(ctx context.Context, s *subject) (all []float64, err error) {
	var lost uint64
	opts := ebpf.RunOptions{Data: s.frame}
	if s.context != nil {
		opts.Context = s.context
	}
	for len(all) < l.runs {
		opts.Repeat = uint32(s.repeat)
		base, err := timeRun(s.base, l.pair.Rx, 0, opts, func() {})
		if err != nil {
			return nil, err
		}
		ns, err := timeRun(s.prog, l.pair.Rx, 0, opts, func() {})
		if err != nil {
			return nil, err
		}
		all = append(all, ns-base)
		if s.process == nil {
			continue
		}
		c, err := s.process.settle(ctx)
		if err != nil {
			return nil, err
		}
		if c.seen == 0 {
			return nil, errors.New("the program sees no packets by BPF_PROG_RUN")
		}
		if c.lost > lost {
			lost, all = c.lost, nil
			if s.repeat, err = fewer(s.repeat); err != nil {
				return nil, err
			}
		}
	}
	return all, ctx.Err()
}

// fewer returns half as many packets, after some were lost.
func fewer(repeat int) (int, error) {
	if repeat < 100 {
		return 0, errors.New("its ring is too small to measure it without loss")
	}
	return repeat / 2, nil
}

// attached returns the XDP program that the interface runs.
func (l *lab) attached() (prog *ebpf.Program, err error) {
	err = l.pair.Rx.Do(func() error {
		ifi, err := xdp.InterfaceByName(rxName)
		if err != nil {
			return err
		}
		if len(ifi.Programs) == 0 {
			return fmt.Errorf("%s runs no XDP program", rxName)
		}
		prog, err = xdp.OpenProgram(ifi.Programs[0].ID)
		return err
	})
	return prog, err
}

// attachedToTC returns the program that the interface runs at tcx, in one direction.
func (l *lab) attachedToTC(at ebpf.AttachType) (prog *ebpf.Program, err error) {
	err = l.pair.Rx.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: l.pair.RxIndex, Attach: at})
		if err != nil {
			return err
		}
		if len(found.Programs) == 0 {
			return fmt.Errorf("%s has no program at %v", rxName, at)
		}
		prog, err = xdp.OpenProgram(uint32(found.Programs[0].ID))
		return err
	})
	return prog, err
}
