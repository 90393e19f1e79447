package testnet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// maxLiveFrame is the size in bytes of the largest frame that a Generator sends. The kernel puts
// each frame in one page and needs a part of the page itself. Kernels since 5.18 accept a little
// more.
const maxLiveFrame = 3000

// maxRepeat is the maximum number of frames in one system call. The kernel counts them in 32 bits,
// and not exactly.
const maxRepeat = 1 << 31

// maxWait is MAX_WAIT_NS in generator.c.
const maxWait = time.Millisecond

// Generator sends frames from a Pair's Tx side, in the kernel: millions per second from one core.
// The receiver must poll, or the kernel drops the frames: it needs an XDP program on Rx, or
// PairOptions.GRO.
// Frames are sent in the order of their numbers, and each Run continues after the last number. A
// Generator does one Run at a time; other calls wait. To send from several CPUs at once, use one
// Generator for each, with separate numbers (SetSequence).
type Generator struct {
	mu   sync.Mutex
	pair *Pair
	objs generatorSender
}

type generatorSender struct {
	Prog *ebpf.Program  `ebpf:"send_frame"`
	Run  *ebpf.Variable `ebpf:"run"`
	Done *ebpf.Variable `ebpf:"done"`
	Stop *ebpf.Variable `ebpf:"stop"`
}

// GeneratorOptions describes a run.
type GeneratorOptions struct {
	Frame []byte  // up to maxLiveFrame bytes; numbered (UDPFrame) unless Raw
	Raw   bool    // send Frame unchanged; it may be of any protocol
	Count uint64  // frames to send; 0: until the context is done
	Rate  float64 // frames per second; 0: as fast as it goes
	CPU   int     // to run on; thread.AnyCPU (-1): any
	Flows int     // number of source ports to use in turn, from NumberedPort on; 0: 1

	// Batch is how many frames (1 to 256) are handed to Rx at once: Rx runs when a batch is
	// complete. 0 is 64, the kernel's default, or fewer if a batch would take longer than 50 us to
	// fill at this Rate.
	Batch int
}

// Result counts the sent frames of a run.
type Result struct {
	Sent uint64 // frames handed to the interface, counted in the kernel

	// First is the number of the first frame. The last one has the number First + Sent - 1.
	First uint64

	// Elapsed is the time from the first frame to the last, by CLOCK_MONOTONIC. Setting up takes
	// about 25 ms, which are not included.
	Elapsed time.Duration
}

// Rate returns the frames per second of the run, 0 for less than two frames.
func (r Result) Rate() float64 {
	if r.Sent < 2 || r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Sent-1) / r.Elapsed.Seconds()
}

// newGenerator loads a generator for a pair. Needs root, and Linux 5.18.
func newGenerator(pair *Pair) (*Generator, error) {
	spec, err := loadGenerator()
	if err != nil {
		return nil, err
	}
	g := &Generator{pair: pair}
	if err := spec.LoadAndAssign(&g.objs, nil); err != nil {
		return nil, fmt.Errorf("load traffic generator: %w", err)
	}
	return g, nil
}

// SetSequence sets the number of the next frame. A new Generator begins with 0.
func (g *Generator) SetSequence(next uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objs.Done.Set(generatorProgress{Seq: next})
}

// Run sends frames until Count is reached or ctx is done. The end of ctx is not an error: Result
// has the number of sent frames. Sent includes frames that found the ring of Rx full, which
// Pair.Stats counts. There are none as long as Rx polls on the CPU that sends. It does so after
// each batch unless something moves its polling to another CPU: measured on Linux 6.18, for every
// Batch.
//
// While the run waits until the next frame is due, no other thread can run on its CPU, for up to a
// millisecond at a time.
func (g *Generator) Run(ctx context.Context, opts GeneratorOptions) (Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if err := opts.check(); err != nil {
		return Result{}, fmt.Errorf("generate traffic: %w", err)
	}
	first, err := g.arm(opts)
	if err == nil {
		err = g.runQuietly(ctx, opts)
	}
	if err != nil {
		return Result{}, fmt.Errorf("generate traffic on %s: %w", g.pair.TxName, err)
	}
	done, err := g.done()
	return Result{Sent: done.Sent, First: first, Elapsed: time.Duration(done.LastNs - done.StartNs)}, err
}

func (o *GeneratorOptions) check() error {
	switch {
	case len(o.Frame) < 14 || len(o.Frame) > maxLiveFrame:
		return fmt.Errorf("frame of %d bytes, want 14 to %d", len(o.Frame), maxLiveFrame)
	case !o.Raw && (len(o.Frame) < SequenceOffset+8 || !isNumbered(o.Frame)):
		return errors.New("frame is not a numbered one, and Raw is not set")
	case o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0):
		return fmt.Errorf("rate %v", o.Rate)
	case o.Flows < 0 || o.Flows > math.MaxUint16-NumberedPort:
		return fmt.Errorf("%d flows", o.Flows)
	case o.Batch < 0 || o.Batch > 256:
		return fmt.Errorf("batch of %d frames, want 1 to 256", o.Batch)
	}
	return nil
}

func (o *GeneratorOptions) limit() uint64 {
	if o.Count == 0 {
		return math.MaxUint64
	}
	return o.Count
}

func (o *GeneratorOptions) batch() uint32 {
	if o.Batch > 0 {
		return uint32(o.Batch)
	}
	if o.Rate == 0 {
		return 64
	}
	const fill = 50 * time.Microsecond
	return uint32(min(max(o.Rate*fill.Seconds(), 1), 64))
}

// rounds returns how often the program must run to send this many frames. A run that has waited for
// maxWait ends without sending a frame.
func (o *GeneratorOptions) rounds(frames uint64) uint32 {
	perFrame := 1.0
	if o.Rate > 0 {
		perFrame += math.Floor(1 / o.Rate / maxWait.Seconds())
	}
	return uint32(min(float64(frames)*perFrame, maxRepeat))
}

// arm stores the orders for the program, and resets its progress.
func (g *Generator) arm(opts GeneratorOptions) (first uint64, err error) {
	done, err := g.done()
	if err != nil {
		return 0, err
	}
	run := generatorOrders{
		Limit:   opts.limit(),
		Ifindex: uint32(g.pair.TxIndex),
		Flows:   uint32(max(opts.Flows, 1)),
		Port:    NumberedPort,
	}
	if opts.Raw {
		run.Raw = 1
	}
	if opts.Rate > 0 {
		run.IntervalPs = uint64(math.Round(1e12 / opts.Rate))
	}
	return done.Seq, errors.Join(
		g.objs.Stop.Set(uint32(0)),
		g.objs.Run.Set(run),
		g.objs.Done.Set(generatorProgress{Seq: done.Seq}),
	)
}

func (g *Generator) done() (generatorProgress, error) {
	var done generatorProgress
	err := g.objs.Done.Get(&done)
	return done, err
}

// runQuietly sends from a thread of its own that stays on opts.CPU. The thread is in Tx's
// namespace, because the kernel looks up the interface index there. It takes no signal but
// stopSignal, because a signal ends the system call, and starting another one takes time.
func (g *Generator) runQuietly(ctx context.Context, opts GeneratorOptions) error {
	return machine.Quiet(opts.CPU, func() error {
		return g.pair.Tx.Do(func() error {
			defer g.stopWhenDone(ctx)()
			return g.send(ctx, opts)
		})
	}, stopSignal)
}

// send calls the kernel until all frames are sent.
func (g *Generator) send(ctx context.Context, opts GeneratorOptions) error {
	var before uint64
	for ctx.Err() == nil {
		err := runLiveFrames(g.objs.Prog, opts.Frame, opts.rounds(opts.limit()-before), opts.batch())
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		done, getErr := g.done()
		if getErr != nil || done.Sent >= opts.limit() {
			return getErr
		}
		if err == nil && done.Sent == before && ctx.Err() == nil {
			return errors.New("the kernel ran the program, but it sent nothing")
		}
		before = done.Sent
	}
	return nil
}

// stopWhenDone ends the calling thread's system call once ctx is done. The caller calls wait on the
// same thread when it has finished sending; wait returns when no more signals can come.
func (g *Generator) stopWhenDone(ctx context.Context) (wait func()) {
	tid := unix.Gettid()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		// From here on the program sends no frames, and the signal ends the system call. The signal
		// is repeated, because one that comes before the call has no effect.
		if err := g.objs.Stop.Set(uint32(1)); err != nil {
			panic(err) // impossible: arm has written to the same memory before
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			unix.Tgkill(os.Getpid(), tid, stopSignal)
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(over); <-ended }
}

// Close waits for the end of a Run, and unloads the generator.
func (g *Generator) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objs.Prog.Close()
}
