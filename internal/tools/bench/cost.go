package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// programCost is the name of the benchmark of a configuration; "": no transport.
func programCost(what, transport string, size int) string {
	if transport != "" {
		transport = "transport=" + transport
	}
	return named(slices.DeleteFunc([]string{"Program", what, transport, bytesOf(size)}, func(s string) bool { return s == "" })...)
}

// measurePrograms measures the CPU time of a packet in the programs of each configuration, of the
// counter commands, and of programs that do the least that a capture can do.
func (b *bench) measurePrograms(ctx context.Context) (err error) {
	l, err := newLab(networkOptions{cpus: 1}, b.runs)
	if err != nil {
		return fmt.Errorf("network for the costs: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	b.measure(ctx, b.runRounds, l.costs(b.programs))
	return nil
}

func (l *lab) costs(programs []*program) (all []*row) {
	add := func(p *program, command, name string, measure func(context.Context) ([]float64, error)) {
		all = append(all, &row{name: name, command: command, of: p, measure: func(ctx context.Context) (*benchfmt.Result, error) {
			ns, err := measure(ctx)
			// Other work on the machine can only make a run longer.
			return measured(len(ns), of(quartile(ns), nsPacket)), err
		}})
	}
	add(nil, "", programCost(clockName, "", shortSize), l.clockCost)
	add(nil, "", programCost(countName, "", shortSize), l.countCost)
	for _, size := range []int{shortSize, smallSize, middleSize, longSize, jumboSize} {
		add(nil, "", programCost(copyingName, "", size), func(ctx context.Context) ([]float64, error) { return l.copyCost(ctx, size) })
	}
	for i := range configs {
		c := &configs[i]
		for _, transport := range transports {
			for _, p := range programs {
				add(p, "", programCost(c.what, transport, c.size), func(ctx context.Context) ([]float64, error) {
					return l.captureCost(ctx, p, c, transport)
				})
			}
		}
	}
	// Counter commands, with the variant or the addition that is measured.
	for _, what := range []string{"stats", "count", "count --variant ultra", "count --variant naive", "count --sizes", "count --flows 10"} {
		for _, p := range programs {
			args := append(append([]string{p.path}, strings.Fields(what)...), "-i", rxName, "--interval", "1h")
			if what == "stats" {
				args = append(args, "--action", "drop", "--yes")
			}
			t := tool{args: args, ready: "listening on"}
			add(p, t.commandLine(), programCost(what, "", shortSize), func(ctx context.Context) ([]float64, error) {
				return l.counterCost(ctx, t)
			})
		}
	}
	// What top attaches at tc, and a command that counts the same there. top needs a terminal.
	for _, what := range []string{"count --at tc --sizes --flows 10", "top"} {
		for _, p := range programs {
			args := append(append([]string{p.path}, strings.Fields(what)...), "-i", rxName)
			t := tool{args: args, ready: "listening on"}
			if what == "top" {
				t = onTerminal(args, "ingress")
			}
			add(p, strings.Join(args, " "), programCost(what, "", shortSize), func(ctx context.Context) ([]float64, error) {
				return l.ingressCost(ctx, t)
			})
		}
	}
	for _, what := range []string{"drops", "drops --flows 10", "drops --retransmits", "drops udp or arp"} {
		for _, p := range programs {
			args := append([]string{p.path, "drops", "-i", rxName, "--interval", "1h"}, strings.Fields(what)[1:]...)
			t := tool{args: args, ready: "counting packets"}
			add(p, t.commandLine(), programCost(what+": thrown away", "", shortSize), func(ctx context.Context) ([]float64, error) {
				return l.dropsCost(ctx, t, thrownAwayFrame(shortSize))
			})
			add(p, t.commandLine(), programCost(what+": not thrown away", "", shortSize), func(ctx context.Context) ([]float64, error) {
				return l.dropsCost(ctx, t, consumedFrame())
			})
		}
	}
	return all
}

// captureCost measures xdpcap's own program while xdpcap runs and reads what the program sends.
func (l *lab) captureCost(ctx context.Context, p *program, c *config, transport string) (all []float64, err error) {
	if c.place == atStack {
		return l.stackCost(ctx, p, c, transport)
	}
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	s := &subject{base: l.empty.Program(), frame: testnet.UDPFrame(c.size, 0), repeat: repeatFor(c.size, c.kept)}
	if c.frame != nil {
		s.frame = c.frame()
	}
	args, verdict := []string{"-i", rxName}, xdp.Pass
	find := l.attached // the program is known once xdpcap has attached it
	switch c.place {
	case atXDP:
		args, verdict = p.runnable(), xdp.Drop
	case atIngress, atEgress:
		at, flags := ebpf.AttachTCXIngress, []string{"--at", "tc"}
		if c.place == atEgress {
			at, flags = ebpf.AttachTCXEgress, []string{"-Q", "out"}
		}
		find = func() (*ebpf.Program, error) { return l.attachedToTC(at) }
		s.base, err = emptyAtTC()
		opened.later(s.base.Close)
		args = append(args, flags...)
	case atHookMap:
		find = nil
		var hook string
		hook, err = hookTargets(s, &opened)
		args = []string{"--hook", hook}
	default:
		find = nil
		err = l.tracedTargets(s, &opened)
		args = append(args, "--rx-capture", map[place]string{atEntry: "entry", atExit: "exit"}[c.place])
	}
	if err != nil {
		return nil, err
	}
	t := p.tool(c.what, transport, verdict, append(args, c.args...)...)
	if s.process, err = startProcess(ctx, l.pair.Rx, t, toolCPU); err != nil {
		return nil, err
	}
	opened.later(func() error { _, err := s.process.end(); return err })
	if find != nil {
		if s.prog, err = find(); err != nil {
			return nil, err
		}
		opened.later(s.prog.Close)
	}
	return l.cost(ctx, s)
}

// emptyAtTC loads a program for tc that does nothing.
func emptyAtTC() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
}

// newTarget loads a program with a hook map.
func newTarget(opened *closers) (*testnet.Target, error) {
	t, err := testnet.NewTarget(testnet.HookedFrags)
	if err == nil {
		opened.later(t.Close)
	}
	return t, err
}

// tracedTargets loads two programs, and attaches the one that is traced.
func (l *lab) tracedTargets(s *subject, opened *closers) error {
	traced, err := newTarget(opened)
	if err != nil {
		return err
	}
	base, err := newTarget(opened)
	if err != nil {
		return err
	}
	s.prog, s.base, s.context = traced.Program(), base.Program(), contextOf(s.frame, l.pair.RxIndex)
	return traced.AttachAlso(l.pair.Rx, rxName)
}

// contextOf returns a struct xdp_md of linux/bpf.h for a frame that came in on an interface.
func contextOf(frame []byte, ifindex int) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, [6]uint32{0, uint32(len(frame)), 0, uint32(ifindex), 0, 0})
	return b.Bytes()
}

// hookTargets loads two programs with hook maps; one map is pinned for xdpcap.
func hookTargets(s *subject, opened *closers) (path string, err error) {
	hooked, err := newTarget(opened)
	if err != nil {
		return "", err
	}
	base, err := newTarget(opened)
	if err != nil {
		return "", err
	}
	s.prog, s.base = hooked.Program(), base.Program()
	dir, err := os.MkdirTemp("", "xdpcap-bench-")
	if err != nil {
		return "", err
	}
	opened.later(func() error { return os.Remove(dir) })
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		return "", fmt.Errorf("mount a BPF file system: %w", err)
	}
	opened.later(func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
	path = filepath.Join(dir, "hook")
	return path, hooked.Hook().Pin(path)
}

// counterCost measures the program of one of xdpcap's counter commands.
func (l *lab) counterCost(ctx context.Context, t tool) ([]float64, error) {
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
	return l.programCost(ctx, prog, shortSize, mostRepeat)
}

// ingressCost measures the program that a command attaches at tc ingress.
func (l *lab) ingressCost(ctx context.Context, t tool) ([]float64, error) {
	p, err := startProcess(ctx, l.pair.Rx, t, toolCPU)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	base, err := emptyAtTC()
	if err != nil {
		return nil, err
	}
	defer base.Close()
	prog, err := l.attachedToTC(ebpf.AttachTCXIngress)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	return l.cost(ctx, &subject{prog: prog, base: base, frame: testnet.UDPFrame(shortSize, 0), repeat: mostRepeat})
}

// onTerminal is a command that runs on a pseudo-terminal, which shows ready.
func onTerminal(args []string, ready string) (t tool) {
	var words []string
	for _, arg := range args {
		words = append(words, message.ShellWord(arg))
	}
	// exec: a signal to the group of script reaches the command.
	t = tool{args: []string{"script", "-qfec", "TERM=xterm exec " + strings.Join(words, " "), nowhere}, ready: ready}
	if _, err := exec.LookPath("script"); err != nil {
		t.missing = "script of util-linux is not installed"
	}
	return t
}

// copyCost measures a receiver that copies.
func (l *lab) copyCost(ctx context.Context, size int) ([]float64, error) {
	r, err := testnet.AttachReceiver(l.pair.Rx, rxName, xdp.Drop, testnet.ReceiverOptions{Copy: true})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return l.programCost(ctx, r.Program(), size, repeatFor(size, 1))
}

// clockCost measures a program that only reads the clock.
func (l *lab) clockCost(ctx context.Context) ([]float64, error) {
	return l.instructionsCost(ctx, asm.FnKtimeGetNs.Call(), asm.Mov.Imm(asm.R0, int32(xdp.Drop)))
}

// countCost measures a program that only counts packets: the least that a capture does with a
// packet that it skips.
func (l *lab) countCost(ctx context.Context) ([]float64, error) {
	counter, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	defer counter.Close()
	return l.instructionsCost(ctx,
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
	)
}

func (l *lab) instructionsCost(ctx context.Context, body ...asm.Instruction) ([]float64, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: append(body, asm.Return()), License: "Dual BSD/GPL"})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return l.programCost(ctx, p, shortSize, mostRepeat)
}

// programCost measures a program that no process reads from.
func (l *lab) programCost(ctx context.Context, p *ebpf.Program, size, repeat int) ([]float64, error) {
	return l.cost(ctx, &subject{prog: p, base: l.empty.Program(), frame: testnet.UDPFrame(size, 0), repeat: repeat})
}
