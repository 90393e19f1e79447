package main

import (
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// stackRuns is how often the stack's time is measured without xdpcap, and then as often with it: so
// few that a machine's speed rarely changes meanwhile, and so many that few starts are needed.
const stackRuns = 5

// A stackLoad is a frame that is passed to the stack again and again.
type stackLoad struct {
	frame     []byte
	repeat    int  // frames at a time
	isDropped bool // whether the stack drops the frame; it consumes others
}

// stackCost measures how much time a run of xdpcap that traces the stack's drops adds to a packet's
// time in the stack. BPF_PROG_RUN cannot run programs at tracepoints. So it runs an XDP program
// that passes the packets to the stack. When the run ends, the stack is done with them.
func (l *lab) stackCost(t testnet.TB, tool tool, load stackLoad) (all []float64) {
	for len(all) < l.runs {
		without := l.passToStack(t, load, stackRuns)
		var with []float64
		var seen, lost uint64
		testnet.Within(t, func(t testnet.TB) {
			p := startProcess(t, l.pass.pair.Rx, tool, toolCPU)
			if tool.count == nil { // a counter command, which has no rings
				with = l.passToStack(t, load, stackRuns)
				return
			}
			for range stackRuns {
				with = append(with, l.passToStack(t, load, 1)...)
				c := p.waitDrained()
				seen, lost = c.seen, c.lost
			}
			p.end()
		})
		wanted := uint64(0)
		if tool.count != nil && load.isDropped {
			wanted = uint64(load.repeat * stackRuns)
		}
		if seen != wanted {
			t.Fatalf("--drops has seen %d packets, not %d", seen, wanted)
		}
		if lost > 0 {
			all, load.repeat = nil, halve(t, load.repeat)
			continue
		}
		for i := range with {
			all = append(all, with[i]-without[i])
		}
	}
	return all
}

// passToStack passes a frame to the stack so often, several times, and returns the CPU time of a
// packet in ns each time. The frame comes from an interface that runs a program which passes it.
func (l *lab) passToStack(t testnet.TB, load stackLoad, times int) (all []float64) {
	opts := ebpf.RunOptions{
		Data:    load.frame,
		Context: contextOf(load.frame, l.pass.pair.RxIndex),
		Repeat:  uint32(load.repeat),
		Flags:   unix.BPF_F_TEST_XDP_LIVE_FRAMES,
	}
	for range times {
		ns, err := timeRun(l.passing.Program(), l.pass.pair.Rx, 0, opts, func() {})
		testnet.Must(t, err)
		all = append(all, ns)
	}
	return all
}

// dropReason is the kernel's reason to drop a droppedFrame. An xdpcap with --reason does not trace
// the XDP program that passes the packets, whose time would be measured, too.
const dropReason = "IP_CSUM"

// droppedFrame is a frame that the stack drops early: its IP header's checksum is wrong.
func droppedFrame(size int) []byte {
	frame := testnet.UDPFrame(size, 0)
	frame[14+10] ^= 0xff
	return frame
}

// consumedFrame is a frame that the stack consumes early, so it is not lost: an ARP reply that is
// addressed to another host.
func consumedFrame() []byte {
	frame := testnet.TxToRx().ARPReply()
	frame[5] ^= 0xff
	return frame
}
