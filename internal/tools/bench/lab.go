package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A lab is where XDP programs are run by BPF_PROG_RUN, which needs no traffic.
type lab struct {
	*network
	spare *testnet.Pair
	// empty is attached to the spare pair: the kernel starts an attached program at once, but waits
	// some milliseconds before it runs another one.
	empty *testnet.Receiver
	runs  int // how often a program is run in a row
}

func newLab(opts networkOptions, runs int) (l *lab, err error) {
	l = &lab{runs: runs}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.network, err = newNetwork(opts); err != nil {
		return l, err
	}
	if l.spare, err = testnet.NewPair(testnet.PairOptions{}); err != nil {
		return l, err
	}
	l.empty, err = testnet.AttachReceiver(l.spare.Rx, l.spare.RxName, xdp.Drop, testnet.ReceiverOptions{})
	return l, err
}

func (l *lab) close() error {
	var errs []error
	if l.empty != nil {
		errs = append(errs, l.empty.Close())
	}
	if l.spare != nil {
		errs = append(errs, l.spare.Close())
	}
	if l.network != nil {
		errs = append(errs, l.network.close())
	}
	return errors.Join(errs...)
}

// runProgram runs a program on a CPU by BPF_PROG_RUN and returns the thread's CPU time per packet
// in ns. context is a struct xdp_md or nil; ready is called just before.
func (l *lab) runProgram(p *ebpf.Program, cpu int, frame, context []byte, repeat int, ready func()) (ns float64, err error) {
	opts := &ebpf.RunOptions{Data: frame, Repeat: uint32(repeat)}
	if context != nil {
		opts.Context = context
	}
	return timeRuns(p, cpu, l.pair.Rx, opts, ready)
}

// timeRuns runs a program in a namespace and returns the thread's CPU time per run in ns.
func timeRuns(p *ebpf.Program, cpu int, in *testnet.Namespace, opts *ebpf.RunOptions, ready func()) (ns float64, err error) {
	err = machine.Quiet(cpu, func() error {
		return in.Do(func() error {
			ready()
			before, err := machine.ThreadTime()
			if err != nil {
				return err
			}
			if _, err := p.Run(opts); err != nil {
				return err
			}
			after, err := machine.ThreadTime()
			ns = float64(after-before) / float64(opts.Repeat)
			return err
		})
	})
	return ns, err
}

// A subject is a program whose cost is measured.
type subject struct {
	prog, base *ebpf.Program // the cost is the difference between prog and base
	frame      []byte
	context    []byte
	process    *process // whose reader drains the rings, or nil
	repeat     int      // packets at a time
}

// cost compares the two programs repeatedly, and waits after each run until the rings are empty. If
// packets were lost all the same, it starts over with fewer at a time.
func (l *lab) cost(ctx context.Context, s *subject) (all []float64, err error) {
	var lost uint64
	for len(all) < l.runs {
		base, err := l.runProgram(s.base, 0, s.frame, s.context, s.repeat, func() {})
		if err != nil {
			return nil, err
		}
		ns, err := l.runProgram(s.prog, 0, s.frame, s.context, s.repeat, func() {})
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
			if lost = c.lost; s.repeat < 100 {
				return nil, errors.New("its ring is too small to measure it without loss")
			}
			s.repeat /= 2
			all = all[:0]
		}
	}
	return all, ctx.Err()
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

// attachedAtEgress returns the program that sees what the interface sends, by tcx.
func (l *lab) attachedAtEgress() (prog *ebpf.Program, err error) {
	err = l.pair.Rx.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: l.pair.RxIndex, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		if len(found.Programs) == 0 {
			return fmt.Errorf("%s has no program at its egress", rxName)
		}
		prog, err = xdp.OpenProgram(uint32(found.Programs[0].ID))
		return err
	})
	return prog, err
}
