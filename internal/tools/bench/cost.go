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
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/thread"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A config is one way to run xdpcap. Each differs in one thing from the first: whole packets of 64
// bytes, --sink, one CPU that receives, no filter and no sampling.
type config struct {
	what  string
	size  int
	args  []string
	kept  float64 // which part of the packets goes into a ring
	place place

	// Whether the traffic's rate is measured, too. Where the frame's size is all that differs, it
	// is in the sheets.
	traffic bool
}

// A place is where xdpcap sees the packets.
type place int

const (
	atXDP place = iota
	atHookMap
	atEntry
	atExit
	atEgress
)

// What the configurations are called that others are compared with.
const (
	wholeName   = "whole packets"
	sampleName  = "--sample 1000"
	noMatchName = "filter that does not match"
	egressName  = "-Q out: at egress"
	onePassName = "--count --sizes --flows 10"
	clockName   = "reading the clock alone"
	copyingName = "copying alone"
	countName   = "counting alone"
)

var configs = []config{
	{what: wholeName, size: testnet.MinFrame, kept: 1},
	{what: wholeName, size: middleSize, kept: 1},
	{what: wholeName, size: longSize, kept: 1},
	{what: wholeName, size: jumboSize, kept: 1},
	{what: "-s 96", size: longSize, kept: 1, traffic: true, args: []string{"-s", "96"}},
	{what: "--sample 10", size: testnet.MinFrame, kept: 0.1, traffic: true, args: []string{"--sample", "10"}},
	{what: "--sample 100", size: testnet.MinFrame, kept: 0.01, traffic: true, args: []string{"--sample", "100"}},
	{what: sampleName, size: testnet.MinFrame, kept: 0.001, traffic: true, args: []string{"--sample", "1000"}},
	{what: "filter that matches", size: testnet.MinFrame, kept: 1, traffic: true, args: []string{"udp port 9999"}},
	{what: noMatchName, size: testnet.MinFrame, kept: 0, traffic: true, args: []string{"tcp port 443"}},
	{what: "--max-rate 1000", size: testnet.MinFrame, kept: 0, traffic: true, args: []string{"--max-rate", "1000"}},
	{what: "--hook: a program's hook map", size: testnet.MinFrame, kept: 1, place: atHookMap},
	{what: "entry of a program (fentry)", size: testnet.MinFrame, kept: 1, place: atEntry},
	{what: "exit of a program (fexit)", size: testnet.MinFrame, kept: 1, place: atExit},
	{what: egressName, size: testnet.MinFrame, kept: 1, place: atEgress},
	{what: onePassName, size: testnet.MinFrame, kept: 1, args: []string{"--count", "--sizes", "--flows", "10"}},
	{what: "the same at an exit, --stats --latency", size: testnet.MinFrame, kept: 1, place: atExit,
		args: []string{"--count", "--sizes", "--flows", "10", "--stats", "--latency"}},
}

// A lab is where XDP programs are run by BPF_PROG_RUN, which needs no traffic.
type lab struct {
	*network
	spare *testnet.Pair
	// empty is attached to the spare pair: the kernel begins to run an attached program at once,
	// and waits some milliseconds before it runs another one.
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
	err = thread.Quiet(cpu, func() error {
		return l.pair.Rx.Do(func() error {
			ready()
			before, err := clock.ThreadTime()
			if err != nil {
				return err
			}
			if _, err := p.Run(opts); err != nil {
				return err
			}
			after, err := clock.ThreadTime()
			ns = float64(after-before) / float64(repeat)
			return err
		})
	})
	return ns, err
}

// A subject is a program whose cost is measured.
type subject struct {
	prog, base *ebpf.Program // what a packet costs more in prog than in base counts
	frame      []byte
	context    []byte
	process    *process // whose reader drains the rings, or nil
	repeat     int      // packets at a time
}

// cost compares the two programs again and again, and waits after each run until the rings are
// empty. Where packets were lost all the same, it begins again with fewer at a time.
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

// ringBytes is how much a ring holds by default, and ringPart which part of it is filled at a time.
const (
	ringBytes = 8 << 20
	ringPart  = 0.4
	// mostRepeat is the most packets at a time where they do not fill a ring.
	mostRepeat = 500_000
	// recordBytes is at least what a record has besides the packet.
	recordBytes = 64
)

// repeatFor returns how many packets fill a part of a ring.
func repeatFor(size int, c *config) int {
	if c.kept == 0 {
		return mostRepeat
	}
	return int(min(ringPart*ringBytes/float64(size+recordBytes)/c.kept, mostRepeat))
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
		prog, err = ebpf.NewProgramFromID(ebpf.ProgramID(ifi.Programs[0].ID))
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
		prog, err = ebpf.NewProgramFromID(found.Programs[0].ID)
		return err
	})
	return prog, err
}

// captureCost measures xdpcap's own program while xdpcap runs, and reads what it sends.
func (l *lab) captureCost(ctx context.Context, p *program, c *config, transport string) (result []float64, err error) {
	s := &subject{base: l.empty.Program(), frame: testnet.UDPFrame(c.size, 0), repeat: repeatFor(c.size, c)}
	args := []string{"-i", rxName}
	verdict := xdp.Drop
	switch c.place {
	case atXDP:
		// The program is known once xdpcap has attached it. One that is bound to its device could
		// not be run.
		if strings.Contains(p.help, "--vlan-restore") {
			args = append(args, "--vlan-restore=false")
		}
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

// hookTargets loads two programs with hook maps, of which one is pinned for xdpcap.
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

// clockCost measures a program that reads the clock and does nothing else.
func (l *lab) clockCost(ctx context.Context) ([]float64, error) {
	return l.instructionsCost(ctx, asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Imm(asm.R0, int32(xdp.Drop)),
		asm.Return(),
	})
}

// countCost measures a program that counts packets and does nothing else, the least that a capture
// does with one that it passes over.
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
	measure func() ([]float64, error)
	all     []float64
}

// measureCosts measures what a packet costs in the kernel, in each configuration, and what the
// traffic keeps with it.
func (b *bench) measureCosts(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 1}, b.costRuns)
	if err != nil {
		return fmt.Errorf("network for the costs: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()

	all := l.costings(ctx, b.program)
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
		b.report.Costs = append(b.report.Costs, c.Cost)
	}
	return b.measureTraffic(ctx, l.network)
}

// costings returns everything whose cost is measured.
func (l *lab) costings(ctx context.Context, p *program) (all []*costing) {
	add := func(c Cost, measure func() ([]float64, error)) {
		all = append(all, &costing{Cost: c, measure: measure})
	}
	short := wireSize(testnet.MinFrame)
	add(Cost{What: clockName, Bytes: short}, func() ([]float64, error) { return l.clockCost(ctx) })
	add(Cost{What: countName, Bytes: short}, func() ([]float64, error) { return l.countCost(ctx) })
	for _, size := range []int{testnet.MinFrame, middleSize, longSize, jumboSize} {
		add(Cost{What: copyingName, Bytes: wireSize(size)}, func() ([]float64, error) { return l.copyCost(ctx, size) })
	}
	for i := range configs {
		c := &configs[i]
		for _, transport := range transports {
			add(Cost{What: c.what, Transport: transport, Bytes: wireSize(c.size)}, func() ([]float64, error) {
				return l.captureCost(ctx, p, c, transport)
			})
		}
	}
	for _, t := range []tool{
		quietTool(p.path, "stats", "-i", rxName, "--action", "drop", "--yes", "--interval", "1h"),
		quietTool(p.path, "count", "-i", rxName, "--interval", "1h"),
	} {
		add(Cost{What: t.args[1], Bytes: short, Command: t.commandLine()}, func() ([]float64, error) {
			return l.counterCost(ctx, &t)
		})
	}
	return all
}

// quietTool returns a tool whose own count is not read.
func quietTool(args ...string) tool { return tool{args: args, ready: "listening on"} }

// A traffic is a configuration that traffic is measured with.
type traffic struct {
	cost                     *Cost
	size                     int
	tool                     tool
	rates, beside, part, cpu []float64
}

// measureTraffic measures the rate of unpaced traffic in the configurations, in rounds.
func (b *bench) measureTraffic(ctx context.Context, n *network) error {
	var all []*traffic
	for i := range b.report.Costs {
		cost := &b.report.Costs[i]
		for _, c := range configs {
			if !c.traffic || c.what != cost.What || cost.Missing != "" {
				continue
			}
			t := b.program.tool(c.what, cost.Transport, xdp.Drop, append([]string{"-i", rxName}, c.args...)...)
			cost.Command = t.commandLine()
			all = append(all, &traffic{cost: cost, size: c.size, tool: t})
		}
	}
	for round := range b.fewRounds {
		for _, t := range all {
			if t.cost.Missing != "" {
				continue
			}
			progress("traffic, round %d of %d: %s, %s", round+1, b.fewRounds, t.cost.What, t.cost.Transport)
			w := load{size: t.size, bursts: b.bursts, time: burstTime, beside: n.drop}
			if err := t.round(ctx, n, w); err != nil {
				t.cost.Missing = missing(ctx, err)
			}
		}
	}
	for _, t := range all {
		t.cost.OfDrop, t.cost.Captured = median(ratios(t.rates, t.beside)), median(t.part)
		t.cost.ReaderUs = median(t.cpu)
	}
	return nil
}

func (t *traffic) round(ctx context.Context, n *network, w load) error {
	tr, err := n.withTool(ctx, &t.tool, w)
	if err != nil {
		return err
	}
	t.rates, t.beside = append(t.rates, tr.rates...), append(t.beside, tr.beside...)
	part := 1.0
	if tr.lost > 0 {
		part = float64(tr.captured) / float64(tr.captured+tr.lost)
	}
	t.part = append(t.part, part)
	// The time that a reader needs without packets tells nothing about a packet.
	if tr.captured > tr.sent/20 {
		t.cpu = append(t.cpu, tr.cpuPerPacket())
	}
	return nil
}
