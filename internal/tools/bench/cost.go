package main

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/perf/benchfmt"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// programCost is the name of the benchmark of a configuration; "": no transport.
func programCost(config, transport string, size int) string {
	if transport != "" {
		transport = "transport=" + transport
	}
	return named(slices.DeleteFunc([]string{"Program", config, transport, bytesOf(size)}, func(s string) bool { return s == "" })...)
}

// measurePrograms measures the CPU time of a packet in the programs of each configuration, of the
// counter commands, and of programs that do the least that a capture can do.
func (b *bench) measurePrograms(t testnet.TB) {
	b.measure(t.Context(), b.runRounds, newLab(t, networkOptions{}, b.runs).costs(b.programs))
}

func (l *lab) costs(programs []*program) (all []*row) {
	add := func(p *program, command, name string, measure func(testnet.TB) []float64) {
		all = append(all, &row{name: name, command: command, of: p, measure: func(t testnet.TB) *benchfmt.Result {
			ns := measure(t)
			// Other work on the machine can only make a run longer.
			return measured(len(ns), of(quartile(ns), unitNsPacket))
		}})
	}
	add(nil, "", programCost(clockName, "", shortSize), l.clockCost)
	add(nil, "", programCost(countName, "", shortSize), l.countCost)
	for _, size := range []int{shortSize, smallSize, middleSize, longSize, jumboSize} {
		add(nil, "", programCost(copyingName, "", size), func(t testnet.TB) []float64 { return l.copyCost(t, size) })
	}
	for i := range configs {
		c := &configs[i]
		for _, transport := range transports {
			for _, p := range programs {
				add(p, "", programCost(c.name, transport, c.size), func(t testnet.TB) []float64 { return l.captureCost(t, p, c, transport) })
			}
		}
	}
	addCommand := func(name, command, ready string, measure func(testnet.TB, tool) []float64) {
		for _, p := range programs {
			c := tool{args: append([]string{p.path}, strings.Fields(command)...), ready: ready}
			add(p, c.commandLine(), programCost(name, "", shortSize), func(t testnet.TB) []float64 { return measure(t, c) })
		}
	}
	const interfaceFlag = " -i " + rxName
	// Counter commands, with the variant or the addition that is measured.
	for _, name := range []string{"stats", "count", "count --variant ultra", "count --variant naive", "count --sizes", "count --flows 10"} {
		command := name + interfaceFlag + " --interval 1h"
		if name == "stats" {
			command += " --action drop --yes"
		}
		addCommand(name, command, listening, l.counterCost)
	}
	// The program of top at tc, and a command that counts the same there. top needs a terminal.
	const atTC = "count --at tc --sizes --flows 10"
	addCommand(atTC, atTC+interfaceFlag, listening, l.ingressCost)
	addCommand("top", "top"+interfaceFlag, "ingress", func(t testnet.TB, c tool) []float64 { return l.ingressCost(t, c.onTerminal()) })
	for _, flags := range []string{"", " --flows 10", " --retransmits", " udp or arp"} {
		command := "drops" + interfaceFlag + " --interval 1h" + flags
		addCommand("drops"+flags+droppedSuffix, command, counting, func(t testnet.TB, c tool) []float64 {
			return l.stackCost(t, c, stackLoad{droppedFrame(shortSize), mostRepeat, true})
		})
		addCommand("drops"+flags+notDroppedSuffix, command, counting, func(t testnet.TB, c tool) []float64 {
			return l.stackCost(t, c, stackLoad{consumedFrame(), mostRepeat, false})
		})
	}
	return all
}

// captureCost measures xdpcap's own program while xdpcap runs and reads the records of the program.
func (l *lab) captureCost(t testnet.TB, p *program, c *config, transport string) []float64 {
	if c.place == atStack {
		load := stackLoad{consumedFrame(), repeatFor(c.size, c.ringShare), false}
		if c.ringShare > 0 {
			load.frame, load.isDropped = droppedFrame(c.size), true
		}
		return l.stackCost(t, p.tool(c.name, transport, xdp.Pass, slices.Concat([]string{"-i", rxName, "--drops"}, c.args)...), load)
	}
	s := subject{base: l.empty.Program(), frame: testnet.UDPFrame(c.size, 0), repeat: repeatFor(c.size, c.ringShare)}
	if c.frame != nil {
		s.frame = c.frame()
	}
	args, verdict := []string{"-i", rxName}, xdp.Pass
	find := l.attached // the program is known once xdpcap has attached it
	switch c.place {
	case atXDP:
		args, verdict = runnable, xdp.Drop
	case atIngress:
		args, s.base = append(args, "--at", "tc"), emptyAtTC(t)
		find = func(t testnet.TB) *ebpf.Program { return l.attachedToTC(t, ebpf.AttachTCXIngress) }
	case atEgress:
		args, s.base = append(args, "-Q", "out"), emptyAtTC(t)
		find = func(t testnet.TB) *ebpf.Program { return l.attachedToTC(t, ebpf.AttachTCXEgress) }
	case atHookMap:
		hooked := newTarget(t)
		s.prog, s.base, find = hooked.Program(), newTarget(t).Program(), nil
		args = []string{"--hook", pinHook(t, hooked)}
	case atEntry, atExit:
		traced := newTarget(t)
		testnet.Must(t, traced.AttachAlso(l.pair.Rx, rxName))
		s.prog, s.base, find = traced.Program(), newTarget(t).Program(), nil
		s.context = contextOf(s.frame, l.pair.RxIndex)
		args = append(args, "--rx-capture", map[place]string{atEntry: "entry", atExit: "exit"}[c.place])
	}
	s.process = startProcess(t, l.pair.Rx, p.tool(c.name, transport, verdict, slices.Concat(args, c.args)...), toolCPU)
	if find != nil {
		s.prog = find(t)
	}
	all := l.cost(t, s)
	s.process.end()
	return all
}

// emptyAtTC loads a program for tc that only lets the next program run.
func emptyAtTC(t testnet.TB) *ebpf.Program {
	return loadProgram(t, ebpf.SchedCLS, asm.Mov.Imm(asm.R0, -1))
}

// loadProgram loads a program of a few instructions and the return, until t ends.
func loadProgram(t testnet.TB, kind ebpf.ProgramType, body ...asm.Instruction) *ebpf.Program {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, Instructions: append(body, asm.Return()), License: "Dual BSD/GPL"})
	testnet.Must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// newTarget loads a program with a hook map, until t ends.
func newTarget(t testnet.TB) *testnet.Target {
	target, err := testnet.NewTarget(testnet.HookedFrags)
	testnet.Must(t, err)
	t.Cleanup(func() { target.Close() })
	return target
}

// contextOf returns a struct xdp_md of linux/bpf.h for a frame that came in on an interface.
func contextOf(frame []byte, ifindex int) []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, [6]uint32{0, uint32(len(frame)), 0, uint32(ifindex), 0, 0})
	return b.Bytes()
}

// pinHook pins the hook map of a target for xdpcap, until t ends.
func pinHook(t testnet.TB, target *testnet.Target) (path string) {
	dir := t.TempDir()
	testnet.MustMount(t, "bpf", dir, 0, "")
	path = filepath.Join(dir, "hook")
	testnet.Must(t, target.Hook().Pin(path))
	return path
}

// counterCost measures the program of one of xdpcap's counter commands.
func (l *lab) counterCost(t testnet.TB, command tool) []float64 {
	startProcess(t, l.pair.Rx, command, toolCPU)
	return l.programCost(t, l.attached(t), shortSize, mostRepeat)
}

// ingressCost measures the program that a command attaches at tc ingress.
func (l *lab) ingressCost(t testnet.TB, command tool) []float64 {
	startProcess(t, l.pair.Rx, command, toolCPU)
	prog := l.attachedToTC(t, ebpf.AttachTCXIngress)
	return l.cost(t, subject{prog: prog, base: emptyAtTC(t), frame: testnet.UDPFrame(shortSize, 0), repeat: mostRepeat})
}

// onTerminal returns the command in script of util-linux, which runs it on a pseudo-terminal.
func (c tool) onTerminal() tool {
	var words []string
	for _, arg := range c.args {
		words = append(words, message.ShellWord(arg))
	}
	// exec: a signal to the group of script reaches the command.
	c.args = []string{"script", "-qfec", "TERM=xterm exec " + strings.Join(words, " "), nowhere}
	return c
}

// copyCost measures a receiver that copies.
func (l *lab) copyCost(t testnet.TB, size int) []float64 {
	r := testnet.MustReceiver(t, l.pair, xdp.Drop, testnet.ReceiverOptions{Copy: true})
	return l.programCost(t, r.Program(), size, repeatFor(size, 1))
}

// clockCost measures a program that only reads the clock.
func (l *lab) clockCost(t testnet.TB) []float64 {
	return l.instructionsCost(t, asm.FnKtimeGetNs.Call(), asm.Mov.Imm(asm.R0, int32(xdp.Drop)))
}

// countCost measures a program that only counts packets: the least that a capture does with a
// packet that it skips.
func (l *lab) countCost(t testnet.TB) []float64 {
	counter, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	testnet.Must(t, err)
	defer counter.Close()
	return l.instructionsCost(t,
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

func (l *lab) instructionsCost(t testnet.TB, body ...asm.Instruction) []float64 {
	return l.programCost(t, loadProgram(t, ebpf.XDP, body...), shortSize, mostRepeat)
}

// programCost measures a program that no process reads from.
func (l *lab) programCost(t testnet.TB, p *ebpf.Program, size, repeat int) []float64 {
	return l.cost(t, subject{prog: p, base: l.empty.Program(), frame: testnet.UDPFrame(size, 0), repeat: repeat})
}
