// Package bench measures what a loaded XDP program costs per packet.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Options say which program to measure, and on what.
type Options struct {
	Program  xdp.Program
	Packets  [][]byte      // 14 to 65,535 bytes each; nil = one of each kind of the most common packets
	CPU      int           // the CPU to run on
	Duration time.Duration // CPU time in all, about
}

// A Result has what a program costs, by its verdict.
type Result struct {
	Program  xdp.Program
	Verdicts [xdp.VerdictSlots]Cost // by [xdp.Verdict.Slot]
	Total    Cost
}

// A Cost has the means over some packets. The costs are the difference to a program that does
// nothing, measured in the same way; they can be slightly negative.
type Cost struct {
	Packets int // by the verdict of each one's first run
	Changed int // packets that the program changes: their bytes or their length

	// Ns is the CPU time of one run in ns, when a packet is run many times in a row with warm
	// caches. Packets that the program changes are not measured, because a second run would start
	// with the changed packet.
	Ns       float64
	Repeated int // number of packets behind Ns, Cycles and NativeInstructions

	// OnceNs is the run time in ns of a single run, when the packets are run in order with one
	// system call each.
	OnceNs float64

	Hardware                   bool // whether Cycles and NativeInstructions are known
	Cycles, NativeInstructions float64
}

// ErrNotRunnable means that the kernel does not run the program on packets from user space.
var ErrNotRunnable = errors.New("the kernel does not run the program on packets from user space")

// Measure runs a loaded XDP program on packets by BPF_PROG_RUN, thousands of times. No packet is
// sent, whatever the verdict, but the program's maps change as if all packets had come in by the
// loopback interface. The error is an ErrNotRunnable if the kernel does not run the program in this
// way.
func Measure(ctx context.Context, o Options) (*Result, error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	prog, err := xdp.OpenProgram(o.Program.ID)
	if err != nil {
		return nil, fmt.Errorf("open XDP program %v: %w", o.Program, err)
	}
	defer prog.Close()
	empty, err := loadEmpty()
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	b := measured{prog: prog, empty: empty, options: o, out: make([]byte, 2*maxPacket)}
	if o.Packets == nil {
		b.options.Packets = commonPackets()
	}
	err = machine.Quiet(o.CPU, func() error {
		b.hw = openHardware()
		defer b.hw.close()
		if err := b.runOnce(); err != nil {
			return err
		}
		if err := b.runSingly(ctx); err != nil {
			return err
		}
		return b.runRepeated(ctx)
	})
	if err != nil {
		return nil, err
	}
	return b.sum(), nil
}

var errStopped = errors.New("stopped before the end: nothing was measured")

// loadEmpty loads a program that does nothing, to show the cost of running any program.
func loadEmpty() (*ebpf.Program, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.XDP, Flags: unix.BPF_F_XDP_HAS_FRAGS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Pass)), asm.Return()},
	})
	if err != nil {
		return nil, support.ExplainLoad("load a program that does nothing", err)
	}
	return prog, nil
}

// A measured program is one while it is measured.
type measured struct {
	prog, empty *ebpf.Program
	options     Options
	hw          hardware
	out         []byte // buffer for a run's output, which may be longer than the packet
	packets     []packetCost
}

// A packetCost is what one packet costs.
type packetCost struct {
	verdict xdp.Verdict
	changed bool
	once    float64 // ns over the empty program
	hot     *hotRun // nil: not measured, because the program changes the packet
}

// A hotRun is the mean cost of one run when a packet is run many times.
type hotRun struct {
	ns, cycles, instructions float64
	known                    bool // cycles and instructions are
}

// run runs prog on a packet `times` times, and reports whether it changed the packet.
func (b *measured) run(prog *ebpf.Program, packet []byte, times uint32) (v xdp.Verdict, changed bool, err error) {
	options := ebpf.RunOptions{Data: packet, DataOut: b.out, Repeat: times}
	returned, err := prog.Run(&options)
	return xdp.Verdict(returned), !bytes.Equal(options.DataOut, packet), err
}

// runOnce finds out what the program does with each packet.
func (b *measured) runOnce() error {
	for _, data := range b.options.Packets {
		verdict, changed, err := b.run(b.prog, data, 1)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
			return errkind.Errorf(ErrNotRunnable, "the kernel does not run %v on packets from user space: it refuses programs "+
				"for the entries of a devmap or cpumap, and those that a network card runs", b.options.Program)
		}
		if err != nil {
			return fmt.Errorf("run %v on a packet of %d bytes: %w", b.options.Program, len(data), err)
		}
		b.packets = append(b.packets, packetCost{verdict: verdict, changed: changed})
	}
	return nil
}

// runSingly measures single runs of all packets in order, and as many of the empty program.
func (b *measured) runSingly(ctx context.Context) error {
	var passes int
	for until := time.Now().Add(b.options.Duration / 2); passes == 0 || time.Now().Before(until); passes++ {
		for _, prog := range []*ebpf.Program{b.prog, b.empty} {
			for i := range b.packets {
				if ctx.Err() != nil {
					return errStopped
				}
				_, took, err := prog.Benchmark(b.options.Packets[i], 1, nil)
				if err != nil {
					return fmt.Errorf("run %v again: %w", b.options.Program, err)
				}
				if prog == b.empty {
					took = -took
				}
				b.packets[i].once += float64(took.Nanoseconds())
			}
		}
	}
	for i := range b.packets {
		b.packets[i].once /= float64(passes)
	}
	return nil
}

// runRepeated measures many runs in a row of each packet that the program does not change.
func (b *measured) runRepeated(ctx context.Context) error {
	// The empty program is measured about 16 times in between, to see the same conditions as the
	// other. The first run of each finds cold caches and does not count.
	emptyEvery := max(len(b.packets)/16, 1)
	for _, prog := range []*ebpf.Program{b.empty, b.prog} {
		if _, _, err := b.repeat(prog, 0); err != nil {
			return err
		}
	}
	var empties []hotRun
	for i := range b.packets {
		if ctx.Err() != nil {
			return errStopped
		}
		if i%emptyEvery == 0 {
			e, _, err := b.repeat(b.empty, i)
			if err != nil {
				return err
			}
			empties = append(empties, e)
		}
		p := &b.packets[i]
		if p.changed {
			continue
		}
		hot, changed, err := b.repeat(b.prog, i)
		if err != nil {
			return err
		}
		if p.changed = changed; !changed { // the first run may not have changed it, but a later one did
			p.hot = &hot
		}
	}
	ns := median(empties, func(e hotRun) float64 { return e.ns })
	cycles := median(empties, func(e hotRun) float64 { return e.cycles })
	instructions := median(empties, func(e hotRun) float64 { return e.instructions })
	for _, p := range b.packets {
		if p.hot != nil {
			p.hot.ns -= ns
			p.hot.cycles -= cycles
			p.hot.instructions -= instructions
		}
	}
	return nil
}

// median returns the median of a figure over some runs, at least one.
func median(runs []hotRun, figure func(hotRun) float64) float64 {
	var values []float64
	for _, r := range runs {
		values = append(values, figure(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// repeat measures as many runs of a packet as fit into the packet's share of the time.
func (b *measured) repeat(prog *ebpf.Program, packet int) (hot hotRun, changed bool, err error) {
	const around, least = 50, 1000 // overhead of a run in ns, about; minimum of runs
	part := float64(b.options.Duration.Nanoseconds()) / 2 / float64(len(b.packets))
	times := uint32(min(max(part/(max(b.packets[packet].once, 0)+around), least), 1<<30))
	before, err := machine.ThreadTime()
	if err != nil {
		return hot, false, err
	}
	at := b.hw.read()
	_, changed, err = b.run(prog, b.options.Packets[packet], times)
	if err != nil {
		return hot, false, fmt.Errorf("run %v %d times: %w", b.options.Program, times, err)
	}
	did := b.hw.read().since(at)
	after, err := machine.ThreadTime()
	n := float64(times)
	return hotRun{
		ns:     float64((after - before).Nanoseconds()) / n,
		cycles: float64(did.cycles) / n, instructions: float64(did.instructions) / n, known: did.known,
	}, changed, err
}

// sum computes the means of the packets' costs.
func (b *measured) sum() *Result {
	sum := &Result{Program: b.options.Program}
	for _, p := range b.packets {
		for _, c := range []*Cost{&sum.Verdicts[p.verdict.Slot()], &sum.Total} {
			c.add(p)
		}
	}
	for i := range sum.Verdicts {
		sum.Verdicts[i].divide()
	}
	sum.Total.divide()
	return sum
}

func (c *Cost) add(p packetCost) {
	c.Packets++
	c.OnceNs += p.once
	if p.changed {
		c.Changed++
	}
	if p.hot == nil {
		return
	}
	c.Hardware = p.hot.known && (c.Hardware || c.Repeated == 0)
	c.Repeated++
	c.Ns += p.hot.ns
	c.Cycles += p.hot.cycles
	c.NativeInstructions += p.hot.instructions
}

func (c *Cost) divide() {
	c.OnceNs /= float64(max(c.Packets, 1))
	for _, x := range []*float64{&c.Ns, &c.Cycles, &c.NativeInstructions} {
		*x /= float64(max(c.Repeated, 1))
	}
}
