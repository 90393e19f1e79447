package main

import (
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A config is one way to run xdpcap. Each differs in one thing from the first: whole packets of 64
// bytes, --sink, one CPU that receives, no filter and no sampling.
type config struct {
	what  string
	size  int
	args  []string
	kept  float64 // the part of the packets that goes into a ring
	place place

	// Whether the traffic's rate is also measured. If only the frame's size differs, it is in the
	// sheets.
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
	atStack // what the stack throws away: see stackCost
)

// The names of configurations that others are compared with.
const (
	wholeName   = "whole packets"
	sampleName  = "--sample 1000"
	noMatchName = "filter that does not match"
	noTagsName  = "--vlan-restore=false"
	egressName  = "-Q out: at egress"
	onePassName = "--count --sizes --flows 10"
	clockName   = "reading the clock alone"
	copyingName = "copying alone"
	pollCost    = "-j host_lowprec"
	countName   = "counting alone"
)

// pollArgs make xdpcap read the clock once for many packets.
var pollArgs = []string{"-j", "host_lowprec"}

var configs = []config{
	{what: wholeName, size: testnet.MinFrame, kept: 1},
	{what: wholeName, size: smallSize, kept: 1},
	{what: wholeName, size: middleSize, kept: 1},
	{what: wholeName, size: longSize, kept: 1},
	{what: wholeName, size: jumboSize, kept: 1},
	{what: pollCost, size: testnet.MinFrame, kept: 1, traffic: true, args: pollArgs},
	{what: "-s 96", size: longSize, kept: 1, traffic: true, args: []string{"-s", "96"}},
	{what: "--sample 10", size: testnet.MinFrame, kept: 0.1, traffic: true, args: []string{"--sample", "10"}},
	{what: "--sample 100", size: testnet.MinFrame, kept: 0.01, traffic: true, args: []string{"--sample", "100"}},
	{what: sampleName, size: testnet.MinFrame, kept: 0.001, traffic: true, args: []string{"--sample", "1000"}},
	{what: "filter that matches", size: testnet.MinFrame, kept: 1, traffic: true, args: []string{"udp port 9999"}},
	{what: noMatchName, size: testnet.MinFrame, kept: 0, traffic: true, args: []string{"tcp port 443"}},
	{what: noTagsName, size: testnet.MinFrame, kept: 1, traffic: true, args: []string{"--vlan-restore=false"}},
	{what: "--max-rate 1000", size: testnet.MinFrame, kept: 0, traffic: true, args: []string{"--max-rate", "1000"}},
	{what: "--hook: a program's hook map", size: testnet.MinFrame, kept: 1, place: atHookMap},
	{what: "entry of a program (fentry)", size: testnet.MinFrame, kept: 1, place: atEntry},
	{what: "exit of a program (fexit)", size: testnet.MinFrame, kept: 1, place: atExit},
	{what: egressName, size: testnet.MinFrame, kept: 1, place: atEgress},
	{what: onePassName, size: testnet.MinFrame, kept: 1, args: []string{"--count", "--sizes", "--flows", "10"}},
	{what: "the same at an exit, --stats --latency", size: testnet.MinFrame, kept: 1, place: atExit,
		args: []string{"--count", "--sizes", "--flows", "10", "--stats", "--latency"}},
	{what: "--drops: thrown away", size: testnet.MinFrame, kept: 1, place: atStack, args: []string{"--reason", thrownAwayFor}},
	{what: "--drops: not thrown away", size: testnet.MinFrame, kept: 0, place: atStack, args: []string{"--reason", thrownAwayFor}},
}

// counterConfigs are the counter commands whose programs are measured; what is the command, with
// the variant or the addition that is measured. args are needed besides.
var counterConfigs = []struct {
	what string
	args []string
}{
	{what: "stats", args: []string{"--action", "drop", "--yes"}},
	{what: "count"},
	{what: "count --variant ultra"},
	{what: "count --variant naive"},
	{what: "count --sizes"},
	{what: "count --flows 10"},
}

// ringBytes is how much a ring holds by default, and ringPart is the part that is filled at a time.
const (
	ringBytes = 8 << 20
	ringPart  = 0.4
	// mostRepeat is the most packets at a time if they do not fill a ring.
	mostRepeat = 500_000
	// recordBytes is the most that a record has besides the packet: a packet is padded to 8 bytes.
	recordBytes = recordExtra + 7
)

// repeatFor returns how many packets fill a part of a ring.
func repeatFor(size int, c *config) int {
	if c.kept == 0 {
		return mostRepeat
	}
	return int(min(ringPart*ringBytes/float64(size+recordBytes)/c.kept, mostRepeat))
}
