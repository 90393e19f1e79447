package main

import (
	"fmt"
	"io"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A program is the xdpcap that is measured.
type program struct {
	path string
	results
}

// addProgram adds an xdpcap, and writes the head of its measurements to out.
func (b *bench) addProgram(path string, out io.Writer) error {
	if err := exec.Command(path, "--version").Run(); err != nil {
		return fmt.Errorf("%s --version: %w", path, err)
	}
	p := &program{path: path, results: results{out: out}}
	b.programs = append(b.programs, p)
	for _, line := range []string{
		"date: " + time.Now().UTC().Format(time.DateOnly),
		fmt.Sprintf("cpus: %d", runtime.NumCPU()),
		"cpu: " + machine.CPU(),
		"kernel: " + machine.Kernel(),
		"load: " + load1(), // other work makes the figures useless
		"versions: " + versions(append(p.tools(), others()...)),
	} {
		fmt.Fprintln(out, line)
	}
	for _, unit := range slices.Sorted(maps.Keys(better)) {
		fmt.Fprintf(out, "Unit %s better=%s\n", unit, better[unit])
	}
	return nil
}

// load1 returns the load average of the last minute.
func load1() string {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return err.Error()
	}
	const one = 1 << 16 // SI_LOAD_SHIFT, linux/sysinfo.h
	return fmt.Sprintf("%.2f", float64(info.Loads[0])/one)
}

// versions returns one line with the version of every program that is installed.
func versions(all []tool) string {
	var found, seen []string
	for _, t := range all {
		if slices.Contains(seen, t.args[0]) {
			continue
		}
		seen = append(seen, t.args[0])
		// The error is ignored: xdpdump prints its version and fails, and a missing tool is
		// reported in its row.
		out, _ := exec.Command(t.args[0], "--version").CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); line != "" {
			found = append(found, t.program()+" "+version(line))
		}
	}
	return strings.Join(found, ", ")
}

// version returns the version number in the first line of --version.
func version(line string) string {
	for _, word := range strings.Fields(line) {
		if word = strings.Trim(word, "(),"); strings.ContainsAny(word, "0123456789") {
			return strings.TrimSuffix(word, ".")
		}
	}
	return line
}

// The transports of xdpcap, in the order of the table.
const (
	perf = "perf"
	ring = "ring"
)

var transports = []string{ring, perf}

// What xdpcap prints once a capture, or a counter at the stack, has begun.
const (
	listening = "listening on"
	counting  = "counting packets"
)

// tool returns a run of xdpcap with a transport and further arguments; under XDP_DROP with --sink.
func (p *program) tool(name, transport string, verdict xdp.Verdict, args ...string) tool {
	t := tool{
		name:     name,
		args:     []string{p.path, "--transport", transport},
		verdict:  verdict,
		ready:    listening,
		handOver: 250 * time.Millisecond,
		count:    closingCount,
	}
	if verdict == xdp.Drop {
		t.args = append(t.args, "--sink")
	}
	t.args = append(append(t.args, "-w", nowhere), args...)
	return t
}

// runnable are the arguments by which xdpcap's program at the hook XDP can be run by BPF_PROG_RUN,
// too. A program that requests the card's VLAN tags is bound to its device, and cannot.
var runnable = []string{"-i", rxName, "--vlan-restore=false"}

// A config is one way to run xdpcap. It differs in one setting from the first one: whole packets of
// 64 bytes, --sink, one CPU that receives, no filter and no sampling.
type config struct {
	name      string
	size      int // of the frame
	args      []string
	ringShare float64 // the part of the packets that goes into a ring
	place     place
	frame     func() []byte // of the size; nil = a UDP datagram

	// Whether the traffic's rate is also measured. If only the frame's size differs, it is among
	// the tools.
	inTraffic bool
}

// A place is where xdpcap captures.
type place int

const (
	atXDP place = iota
	atHookMap
	atEntry
	atExit
	atIngress
	atEgress
	atStack // at the stack's drops: see stackCost
)

// The names of configurations that others are compared with.
const (
	wholeName   = "whole packets"
	sampleName  = "--sample 1000"
	noMatchName = "filter that does not match"
	innerName   = "filter with inner that does not match"
	throughName = ", through VXLAN"
	noTagsName  = "--vlan-restore=false"
	ingressName = "--at tc"
	egressName  = "-Q out: at egress"
	clockName   = "reading the clock alone"
	copyingName = "copying alone"
	lowprecName = "-j host_lowprec"
	countName   = "counting alone"

	droppedSuffix    = ": thrown away"
	notDroppedSuffix = ": not thrown away"
)

// lowprecArgs make xdpcap read the clock once for many packets.
var lowprecArgs = []string{"-j", "host_lowprec"}

var configs = []config{
	{name: wholeName, size: shortSize, ringShare: 1},
	{name: wholeName, size: smallSize, ringShare: 1},
	{name: wholeName, size: middleSize, ringShare: 1},
	{name: wholeName, size: longSize, ringShare: 1},
	{name: wholeName, size: jumboSize, ringShare: 1},
	{name: lowprecName, size: shortSize, ringShare: 1, inTraffic: true, args: lowprecArgs},
	{name: "-s 96", size: longSize, ringShare: 1, inTraffic: true, args: []string{"-s", "96"}},
	{name: "--sample 10", size: shortSize, ringShare: 0.1, inTraffic: true, args: []string{"--sample", "10"}},
	{name: "--sample 100", size: shortSize, ringShare: 0.01, inTraffic: true, args: []string{"--sample", "100"}},
	{name: sampleName, size: shortSize, ringShare: 0.001, inTraffic: true, args: []string{"--sample", "1000"}},
	{name: "filter that matches", size: shortSize, ringShare: 1, inTraffic: true, args: []string{"udp port 9999"}},
	{name: noMatchName, size: shortSize, ringShare: 0, inTraffic: true, args: []string{"tcp port 443"}},
	{name: innerName, size: shortSize, ringShare: 0, args: []string{"inner tcp port 443"}},
	{name: noMatchName + throughName, size: vxlanSize, ringShare: 0, frame: vxlanFrame, args: []string{"tcp port 443"}},
	{name: innerName + throughName, size: vxlanSize, ringShare: 0, frame: vxlanFrame, args: []string{"inner tcp port 443"}},
	{name: noTagsName, size: shortSize, ringShare: 1, inTraffic: true, args: []string{"--vlan-restore=false"}},
	{name: "--max-rate 1000", size: shortSize, ringShare: 0, inTraffic: true, args: []string{"--max-rate", "1000"}},
	{name: "--hook: a program's hook map", size: shortSize, ringShare: 1, place: atHookMap},
	{name: "entry of a program (fentry)", size: shortSize, ringShare: 1, place: atEntry},
	{name: "exit of a program (fexit)", size: shortSize, ringShare: 1, place: atExit},
	{name: ingressName, size: shortSize, ringShare: 1, place: atIngress},
	{name: ingressName, size: longSize, ringShare: 1, place: atIngress},
	{name: egressName, size: shortSize, ringShare: 1, place: atEgress},
	{name: "--count --sizes --flows 10", size: shortSize, ringShare: 1, args: []string{"--count", "--sizes", "--flows", "10"}},
	{name: "the same at an exit, --stats --latency", size: shortSize, ringShare: 1, place: atExit,
		args: []string{"--count", "--sizes", "--flows", "10", "--stats", "--latency"}},
	{name: "--drops" + droppedSuffix, size: shortSize, ringShare: 1, place: atStack, args: []string{"--reason", dropReason}},
	{name: "--drops" + notDroppedSuffix, size: shortSize, ringShare: 0, place: atStack, args: []string{"--reason", dropReason}},
}

// vxlanSize is the size of vxlanFrame: a shortest frame, and 50 bytes of headers around it.
const vxlanSize = shortSize + 50

// vxlanFrame is a shortest frame inside VXLAN.
func vxlanFrame() []byte {
	header := []byte{8, 0, 0, 0, 0, 0, 5, 0}
	return testnet.TxToRx().UDP(50000, 4789, append(header, testnet.UDPFrame(shortSize, 0)...))
}

// tools returns the runs of xdpcap that are compared with other tools.
func (p *program) tools() []tool {
	var all []tool
	for _, transport := range transports {
		all = append(all, p.tool(sinkName(transport), transport, xdp.Drop, "-i", rxName))
	}
	all = append(all, p.tool(lowprecSinkName, ring, xdp.Drop, append([]string{"-i", rxName}, lowprecArgs...)...))
	for _, transport := range transports {
		all = append(all, p.tool(ownName(transport), transport, xdp.Pass, "-i", rxName))
	}
	return all
}

// fileTools returns the runs of xdpcap that write to files.
func (p *program) fileTools() []tool {
	return append(pick(p.tools(), sinkName(ring), ownName(ring)), p.tool(roomName, ring, xdp.Drop, "-i", rxName, "-B", "64M"))
}

// configTools returns those of the configurations that are measured in traffic of frames of a size.
func (p *program) configTools(size int) (all []tool) {
	for _, c := range configs {
		for _, transport := range transports {
			if c.inTraffic && c.size == size {
				t := p.tool(inTraffic(c.name, transport), transport, xdp.Drop, append([]string{"-i", rxName}, c.args...)...)
				t.selects = true
				all = append(all, t)
			}
		}
	}
	return all
}
