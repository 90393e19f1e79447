package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// MeasureOptions are the program to measure, and the packets that it runs on.
type MeasureOptions struct {
	Program  *Program
	Packets  [][]byte      // 14 to 65,535 bytes each; nil = TCP and UDP over IPv4 and IPv6, one packet each
	CPU      int           // the CPU to run on
	Duration time.Duration // CPU time in all, about
}

// Measured has the cost of a program, by its verdict.
type Measured struct {
	Verdicts [xdp.VerdictSlots]Cost // by [xdp.Verdict.Slot]
	Total    Cost
}

// A Cost has the means over some packets. The costs are the difference to an empty program,
// measured in the same way; they can be slightly negative.
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

// errNotRunnable means that the kernel does not run the program on packets from user space.
var errNotRunnable = errors.New("the kernel does not run the program on packets from user space")

// Measure runs a loaded XDP program on packets by BPF_PROG_RUN, thousands of times. No packet is
// sent, with any verdict, but the program's maps change as if all packets had come in by the
// loopback interface. The error is an errNotRunnable if the kernel does not run the program in this
// way.
func Measure(ctx context.Context, o MeasureOptions) (*Measured, error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	empty, err := loadEmpty()
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	m := measuring{prog: o.Program.Kernel, empty: empty, options: o, out: make([]byte, 2*maxPacket)}
	if o.Packets == nil {
		m.options.Packets = commonPackets()
	}
	err = machine.Quiet(o.CPU, func() error {
		m.hw = openHardware()
		defer m.hw.close()
		if err := m.runOnce(); err != nil {
			return err
		}
		if err := m.runSingly(ctx); err != nil {
			return err
		}
		return m.runRepeated(ctx)
	})
	if err != nil {
		return nil, err
	}
	return m.sum(), nil
}

var errStopped = errors.New("stopped before the end: nothing was measured")

// A measuring is one call of Measure.
type measuring struct {
	prog, empty *ebpf.Program
	options     MeasureOptions
	hw          hardware
	out         []byte // buffer for a run's output, which may be longer than the packet
	packets     []packetCost
}

// A packetCost is the cost of one packet.
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
func (m *measuring) run(prog *ebpf.Program, packet []byte, times uint32) (v xdp.Verdict, changed bool, err error) {
	options := ebpf.RunOptions{Data: packet, DataOut: m.out, Repeat: times}
	returned, err := prog.Run(&options)
	return xdp.Verdict(returned), !bytes.Equal(options.DataOut, packet), err
}

// runOnce runs the program once on each packet, for its verdict and whether it changes the packet.
func (m *measuring) runOnce() error {
	for _, data := range m.options.Packets {
		verdict, changed, err := m.run(m.prog, data, 1)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
			return message.Errorf(errNotRunnable, "the kernel does not run %v on packets from user space: it refuses programs "+
				"for the entries of a devmap or cpumap, and those that a network card runs", m.options.Program)
		}
		if err != nil {
			return fmt.Errorf("run %v on a packet of %d bytes: %w", m.options.Program, len(data), err)
		}
		m.packets = append(m.packets, packetCost{verdict: verdict, changed: changed})
	}
	return nil
}

// runSingly measures single runs of all packets in order, and as many of the empty program.
func (m *measuring) runSingly(ctx context.Context) error {
	var passes int
	for until := time.Now().Add(m.options.Duration / 2); passes == 0 || time.Now().Before(until); passes++ {
		for _, prog := range []*ebpf.Program{m.prog, m.empty} {
			for i := range m.packets {
				if ctx.Err() != nil {
					return errStopped
				}
				_, took, err := prog.Benchmark(m.options.Packets[i], 1, nil)
				if err != nil {
					return fmt.Errorf("run %v again: %w", m.options.Program, err)
				}
				if prog == m.empty {
					took = -took
				}
				m.packets[i].once += float64(took.Nanoseconds())
			}
		}
	}
	for i := range m.packets {
		m.packets[i].once /= float64(passes)
	}
	return nil
}

// runRepeated measures many runs in a row of each packet that the program does not change.
func (m *measuring) runRepeated(ctx context.Context) error {
	// The empty program is measured about 16 times in between, under the same conditions as the
	// other program. The first run of each finds cold caches and does not count.
	emptyEvery := max(len(m.packets)/16, 1)
	for _, prog := range []*ebpf.Program{m.empty, m.prog} {
		if _, _, err := m.repeat(prog, 0); err != nil {
			return err
		}
	}
	var empties []hotRun
	for i := range m.packets {
		if ctx.Err() != nil {
			return errStopped
		}
		if i%emptyEvery == 0 {
			e, _, err := m.repeat(m.empty, i)
			if err != nil {
				return err
			}
			empties = append(empties, e)
		}
		p := &m.packets[i]
		if p.changed {
			continue
		}
		hot, changed, err := m.repeat(m.prog, i)
		if err != nil {
			return err
		}
		if p.changed = changed; !changed { // a later run may change it although the first one did not
			p.hot = &hot
		}
	}
	ns := median(empties, func(e hotRun) float64 { return e.ns })
	cycles := median(empties, func(e hotRun) float64 { return e.cycles })
	instructions := median(empties, func(e hotRun) float64 { return e.instructions })
	for _, p := range m.packets {
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
func (m *measuring) repeat(prog *ebpf.Program, packet int) (hot hotRun, changed bool, err error) {
	const overheadNs, minTimes, maxTimes = 50, 1000, 1 << 30 // the overhead of a run is about 50 ns
	shareNs := float64(m.options.Duration.Nanoseconds()) / 2 / float64(len(m.packets))
	times := uint32(min(max(shareNs/(max(m.packets[packet].once, 0)+overheadNs), minTimes), maxTimes))
	before, err := machine.ThreadTime()
	if err != nil {
		return hot, false, err
	}
	at := m.hw.read()
	_, changed, err = m.run(prog, m.options.Packets[packet], times)
	if err != nil {
		return hot, false, fmt.Errorf("run %v %d times: %w", m.options.Program, times, err)
	}
	did := m.hw.read().since(at)
	after, err := machine.ThreadTime()
	n := float64(times)
	return hotRun{
		ns:     float64((after - before).Nanoseconds()) / n,
		cycles: float64(did.cycles) / n, instructions: float64(did.instructions) / n, known: did.known,
	}, changed, err
}

// sum computes the means of the packets' costs.
func (m *measuring) sum() *Measured {
	sum := new(Measured)
	for _, p := range m.packets {
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
