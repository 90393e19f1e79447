package main

import (
	"errors"
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

func newLab(t testnet.TB, opts networkOptions, runs int) *lab {
	spare := testnet.MustPair(t, testnet.PairOptions{})
	empty := testnet.MustReceiver(t, spare, xdp.Drop, testnet.ReceiverOptions{})
	return &lab{network: newNetwork(t, opts), empty: empty, runs: runs}
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

// repeatFor returns how many packets fill a part of a ring, if this share of them goes there.
func repeatFor(size int, ringShare float64) int {
	if ringShare == 0 {
		return mostRepeat
	}
	return int(min(ringPart*ringBytes/float64(size+recordBytes)/ringShare, mostRepeat))
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
func (l *lab) runOn(t testnet.TB, cpus int, prog *ebpf.Program, frame []byte, repeat int) (rate float64) {
	var ready atomic.Int32
	var all sync.WaitGroup
	ns, errs := make([]float64, cpus), make([]error, cpus)
	for cpu := range cpus {
		all.Go(func() {
			opts := ebpf.RunOptions{Data: frame, Repeat: uint32(repeat)}
			ns[cpu], errs[cpu] = timeRun(prog, l.pair.Rx, cpu, opts, func() {
				// The loop must call a function, or it may block the garbage collector: see Quiet.
				for ready.Add(1); int(ready.Load()) < cpus; {
					runtime.Gosched()
				}
			})
		})
	}
	all.Wait()
	testnet.Must(t, errors.Join(errs...))
	for _, n := range ns {
		rate += 1e9 / n
	}
	return rate
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
func (l *lab) cost(t testnet.TB, s subject) (all []float64) {
	var lost uint64
	opts := ebpf.RunOptions{Data: s.frame}
	if s.context != nil {
		opts.Context = s.context
	}
	for len(all) < l.runs {
		opts.Repeat = uint32(s.repeat)
		base, err := timeRun(s.base, l.pair.Rx, 0, opts, func() {})
		testnet.Must(t, err)
		ns, err := timeRun(s.prog, l.pair.Rx, 0, opts, func() {})
		testnet.Must(t, err)
		all = append(all, ns-base)
		if s.process == nil {
			continue
		}
		c := s.process.waitDrained()
		if c.seen == 0 {
			t.Fatalf("the program sees no packets by BPF_PROG_RUN")
		}
		if c.lost > lost {
			lost, all = c.lost, nil
			s.repeat = halve(t, s.repeat)
		}
	}
	return all
}

// halve returns half as many packets, after some were lost.
func halve(t testnet.TB, repeat int) int {
	if repeat < 100 {
		t.Fatalf("its ring is too small to measure it without loss")
	}
	return repeat / 2
}

// attached returns the XDP program that the interface runs, until t ends.
func (l *lab) attached(t testnet.TB) *ebpf.Program {
	var ifi xdp.Interface
	testnet.Must(t, l.pair.Rx.Do(func() (err error) {
		ifi, err = xdp.InterfaceByName(rxName)
		return err
	}))
	if len(ifi.Programs) == 0 {
		t.Fatalf("%s runs no XDP program", rxName)
	}
	return opened(t, ifi.Programs[0].ID)
}

// attachedToTC returns the program that the interface runs at tcx, in one direction, until t ends.
func (l *lab) attachedToTC(t testnet.TB, at ebpf.AttachType) *ebpf.Program {
	var found *link.QueryResult
	testnet.Must(t, l.pair.Rx.Do(func() (err error) {
		found, err = link.QueryPrograms(link.QueryOptions{Target: l.pair.RxIndex, Attach: at})
		return err
	}))
	if len(found.Programs) == 0 {
		t.Fatalf("%s has no program at %v", rxName, at)
	}
	return opened(t, uint32(found.Programs[0].ID))
}

func opened(t testnet.TB, id uint32) *ebpf.Program {
	prog, err := xdp.OpenProgram(id)
	testnet.Must(t, err)
	t.Cleanup(func() { prog.Close() })
	return prog
}
