package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// captureCost measures xdpcap's own program while xdpcap runs and reads what the program sends.
func (l *lab) captureCost(ctx context.Context, p *program, c *config, transport string) (result []float64, err error) {
	if c.place == atStack {
		return l.stackCost(ctx, p, c, transport)
	}
	s := &subject{base: l.empty.Program(), frame: testnet.UDPFrame(c.size, 0), repeat: repeatFor(c.size, c)}
	args := []string{"-i", rxName}
	verdict := xdp.Drop
	switch c.place {
	case atXDP:
		args = p.runnable() // the program is known once xdpcap has attached it
	case atEgress:
		empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
		if err != nil {
			return nil, err
		}
		defer empty.Close()
		s.base, verdict = empty, xdp.Pass
		args = append(args, "-Q", "out")
	case atHookMap:
		hook, remove, err := l.hookTargets(s)
		if err != nil {
			return nil, err
		}
		defer remove()
		args, verdict = []string{"--hook", hook}, xdp.Pass
	default:
		target, err := testnet.AttachTarget(l.pair.Rx, rxName, testnet.HookedFrags)
		if err != nil {
			return nil, err
		}
		defer target.Close()
		base, err := testnet.NewTarget(testnet.HookedFrags)
		if err != nil {
			return nil, err
		}
		defer base.Close()
		s.prog, s.base, verdict = target.Program(), base.Program(), xdp.Pass
		s.context = contextOf(s.frame, l.pair.RxIndex)
		args = append(args, "--rx-capture", "entry")
		if c.place == atExit {
			args[len(args)-1] = "exit"
		}
	}
	t := p.tool(c.what, transport, verdict, append(args, c.args...)...)
	if t.missing != "" {
		return nil, errors.New(t.missing)
	}
	if s.process, err = startProcess(ctx, l.pair.Rx, &t, toolCPU); err != nil {
		return nil, err
	}
	defer func() {
		_, endErr := s.process.end()
		err = errors.Join(err, endErr)
	}()
	if s.prog == nil {
		find := l.attached
		if c.place == atEgress {
			find = l.attachedAtEgress
		}
		if s.prog, err = find(); err != nil {
			return nil, err
		}
		defer s.prog.Close()
	}
	return l.cost(ctx, s)
}

// contextOf returns a struct xdp_md of linux/bpf.h for a frame that came in on an interface.
func contextOf(frame []byte, ifindex int) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, [6]uint32{0, uint32(len(frame)), 0, uint32(ifindex), 0, 0})
	return b.Bytes()
}

// hookTargets loads two programs with hook maps; one map is pinned for xdpcap.
func (l *lab) hookTargets(s *subject) (path string, remove func(), err error) {
	var undo []func() error
	remove = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	var targets [2]*testnet.Target
	for i := range targets {
		if targets[i], err = testnet.NewTarget(testnet.HookedFrags); err != nil {
			return "", remove, err
		}
		undo = append(undo, targets[i].Close)
	}
	dir, err := os.MkdirTemp("", "xdpcap-bench-")
	if err != nil {
		return "", remove, err
	}
	undo = append(undo, func() error { return os.Remove(dir) })
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		return "", remove, fmt.Errorf("mount a BPF file system: %w", err)
	}
	undo = append(undo, func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
	path = filepath.Join(dir, "hook")
	s.prog, s.base = targets[0].Program(), targets[1].Program()
	return path, remove, targets[0].Hook().Pin(path)
}

// clockCost measures a program that only reads the clock.
func (l *lab) clockCost(ctx context.Context) ([]float64, error) {
	return l.instructionsCost(ctx, asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Imm(asm.R0, int32(xdp.Drop)),
		asm.Return(),
	})
}

// countCost measures a program that only counts packets: the least that a capture does with a
// packet that it skips.
func (l *lab) countCost(ctx context.Context) ([]float64, error) {
	counter, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	defer counter.Close()
	return l.instructionsCost(ctx, asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, counter.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, int32(xdp.Drop)).WithSymbol("end"),
		asm.Return(),
	})
}

func (l *lab) instructionsCost(ctx context.Context, body asm.Instructions) ([]float64, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: body, License: "Dual BSD/GPL"})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return l.cost(ctx, &subject{prog: p, base: l.empty.Program(), frame: testnet.UDPFrame(testnet.MinFrame, 0), repeat: mostRepeat})
}

// copyCost measures a receiver that copies.
func (l *lab) copyCost(ctx context.Context, size int) ([]float64, error) {
	r, err := testnet.AttachReceiver(l.pair.Rx, rxName, xdp.Drop, testnet.ReceiverOptions{Copy: true})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := config{kept: 1}
	return l.cost(ctx, &subject{
		prog: r.Program(), base: l.empty.Program(), frame: testnet.UDPFrame(size, 0), repeat: repeatFor(size, &c),
	})
}

// counterCost measures the program of one of xdpcap's counter commands.
func (l *lab) counterCost(ctx context.Context, t *tool) (all []float64, err error) {
	p, err := startProcess(ctx, l.pair.Rx, t, toolCPU)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	prog, err := l.attached()
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	return l.cost(ctx, &subject{
		prog: prog, base: l.empty.Program(), frame: testnet.UDPFrame(testnet.MinFrame, 0), repeat: mostRepeat,
	})
}

// A costing is a configuration whose cost is measured.
type costing struct {
	Cost
	of      *program // nil: not of xdpcap
	measure func() ([]float64, error)
	all     []float64
}

// measureCosts measures the kernel's cost per packet in each configuration, and the rate that the
// traffic keeps with it.
func (b *bench) measureCosts(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 1}, b.costRuns)
	if err != nil {
		return fmt.Errorf("network for the costs: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()

	all := l.costings(ctx, b.programs)
	for round := range b.costRounds {
		for _, c := range all {
			if c.Missing != "" {
				continue
			}
			progress("costs, round %d of %d: %s, %s", round+1, b.costRounds, c.What, c.Transport)
			some, err := c.measure()
			if err != nil {
				c.Missing = missing(ctx, err)
			}
			c.all = append(c.all, some...)
		}
	}
	for _, c := range all {
		if c.Missing == "" {
			ns := quantile(c.all, 0.25)
			c.KernelNs, c.MedianNs = &ns, median(c.all)
		}
		b.each(c.of, func(r *Report) { r.Costs = append(r.Costs, c.Cost) })
	}
	return b.measureTraffic(ctx, l.network)
}

// costings returns everything whose cost is measured.
func (l *lab) costings(ctx context.Context, programs []*program) (all []*costing) {
	add := func(p *program, c Cost, measure func() ([]float64, error)) {
		all = append(all, &costing{of: p, Cost: c, measure: measure})
	}
	short := wireSize(testnet.MinFrame)
	add(nil, Cost{What: clockName, Bytes: short}, func() ([]float64, error) { return l.clockCost(ctx) })
	add(nil, Cost{What: countName, Bytes: short}, func() ([]float64, error) { return l.countCost(ctx) })
	for _, size := range []int{testnet.MinFrame, smallSize, middleSize, longSize, jumboSize} {
		add(nil, Cost{What: copyingName, Bytes: wireSize(size)}, func() ([]float64, error) { return l.copyCost(ctx, size) })
	}
	for i := range configs {
		c := &configs[i]
		for _, transport := range transports {
			for _, p := range programs {
				add(p, Cost{What: c.what, Transport: transport, Bytes: wireSize(c.size)}, func() ([]float64, error) {
					return l.captureCost(ctx, p, c, transport)
				})
			}
		}
	}
	for _, c := range counterConfigs {
		for _, p := range programs {
			t := quietTool(append(append([]string{p.path}, strings.Fields(c.what)...), append(c.args, "-i", rxName, "--interval", "1h")...)...)
			add(p, Cost{What: c.what, Bytes: short, Command: t.commandLine()}, func() ([]float64, error) {
				return l.counterCost(ctx, &t)
			})
		}
	}
	return all
}

// quietTool returns a tool whose own count is not read.
func quietTool(args ...string) tool { return tool{args: args, ready: "listening on"} }
