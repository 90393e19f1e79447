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
	help string // what --help prints
	results
}

// add adds an xdpcap to those that are measured, and writes what stands before its measurements.
func (b *bench) add(path string, out io.Writer) error {
	help, err := exec.Command(path, "--help").Output()
	if err != nil {
		return fmt.Errorf("%s --help: %w", path, err)
	}
	p := &program{path: path, help: string(help), results: results{out: out}}
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

// tool returns a run of xdpcap with a transport and further arguments; under XDP_DROP with --sink.
func (p *program) tool(name, transport string, verdict xdp.Verdict, args ...string) tool {
	t := tool{
		name:     name,
		args:     []string{p.path},
		verdict:  verdict,
		ready:    "listening on",
		handOver: 250 * time.Millisecond,
		count:    closingCount,
	}
	switch {
	case strings.Contains(p.help, "--transport"):
		t.args = append(t.args, "--transport", transport)
	case transport != perf:
		t.missing = "this xdpcap has no --transport"
	}
	if verdict == xdp.Drop {
		t.args = append(t.args, "--sink")
	}
	t.args = append(append(t.args, "-w", nowhere), args...)
	return t
}

// runnable returns arguments by which xdpcap's program at the hook XDP can be run by BPF_PROG_RUN,
// too: one that asks the card for VLAN tags is bound to its device, and cannot.
func (p *program) runnable() []string {
	args := []string{"-i", rxName}
	if strings.Contains(p.help, "--vlan-restore") {
		args = append(args, "--vlan-restore=false")
	}
	return args
}

// A config is one way to run xdpcap. Each differs in one thing from the first: whole packets of 64
// bytes, --sink, one CPU that receives, no filter and no sampling.
type config struct {
	what  string
	size  int
	args  []string
	kept  float64 // the part of the packets that goes into a ring
	place place
	frame func() []byte // of the size; nil = a UDP datagram

	// Whether the traffic's rate is also measured. If only the frame's size differs, it is among
	// the tools.
	traffic bool
}

// A place is where xdpcap sees the packets.
type place int

const (
	atXDP place = iota
	atHookMap
	atEntry
	atExit
	atIngress
	atEgress
	atStack // what the stack throws away: see stackTime
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
	pollCost    = "-j host_lowprec"
	countName   = "counting alone"
)

// pollArgs make xdpcap read the clock once for many packets.
var pollArgs = []string{"-j", "host_lowprec"}

var configs = []config{
	{what: wholeName, size: shortSize, kept: 1},
	{what: wholeName, size: smallSize, kept: 1},
	{what: wholeName, size: middleSize, kept: 1},
	{what: wholeName, size: longSize, kept: 1},
	{what: wholeName, size: jumboSize, kept: 1},
	{what: pollCost, size: shortSize, kept: 1, traffic: true, args: pollArgs},
	{what: "-s 96", size: longSize, kept: 1, traffic: true, args: []string{"-s", "96"}},
	{what: "--sample 10", size: shortSize, kept: 0.1, traffic: true, args: []string{"--sample", "10"}},
	{what: "--sample 100", size: shortSize, kept: 0.01, traffic: true, args: []string{"--sample", "100"}},
	{what: sampleName, size: shortSize, kept: 0.001, traffic: true, args: []string{"--sample", "1000"}},
	{what: "filter that matches", size: shortSize, kept: 1, traffic: true, args: []string{"udp port 9999"}},
	{what: noMatchName, size: shortSize, kept: 0, traffic: true, args: []string{"tcp port 443"}},
	{what: innerName, size: shortSize, kept: 0, args: []string{"inner tcp port 443"}},
	{what: noMatchName + throughName, size: vxlanSize, kept: 0, frame: vxlanFrame, args: []string{"tcp port 443"}},
	{what: innerName + throughName, size: vxlanSize, kept: 0, frame: vxlanFrame, args: []string{"inner tcp port 443"}},
	{what: noTagsName, size: shortSize, kept: 1, traffic: true, args: []string{"--vlan-restore=false"}},
	{what: "--max-rate 1000", size: shortSize, kept: 0, traffic: true, args: []string{"--max-rate", "1000"}},
	{what: "--hook: a program's hook map", size: shortSize, kept: 1, place: atHookMap},
	{what: "entry of a program (fentry)", size: shortSize, kept: 1, place: atEntry},
	{what: "exit of a program (fexit)", size: shortSize, kept: 1, place: atExit},
	{what: ingressName, size: shortSize, kept: 1, place: atIngress},
	{what: ingressName, size: longSize, kept: 1, place: atIngress},
	{what: egressName, size: shortSize, kept: 1, place: atEgress},
	{what: "--count --sizes --flows 10", size: shortSize, kept: 1, args: []string{"--count", "--sizes", "--flows", "10"}},
	{what: "the same at an exit, --stats --latency", size: shortSize, kept: 1, place: atExit,
		args: []string{"--count", "--sizes", "--flows", "10", "--stats", "--latency"}},
	{what: "--drops: thrown away", size: shortSize, kept: 1, place: atStack, args: []string{"--reason", thrownAwayFor}},
	{what: "--drops: not thrown away", size: shortSize, kept: 0, place: atStack, args: []string{"--reason", thrownAwayFor}},
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
	all = append(all, p.tool(pollName, ring, xdp.Drop, append([]string{"-i", rxName}, pollArgs...)...))
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
			if c.traffic && c.size == size {
				t := p.tool(inTraffic(c.what, transport), transport, xdp.Drop, append([]string{"-i", rxName}, c.args...)...)
				t.selects = true
				all = append(all, t)
			}
		}
	}
	return all
}
