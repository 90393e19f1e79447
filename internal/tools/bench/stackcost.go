package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// stackRuns is how often the stack's time is measured without xdpcap, and then as often with it: so
// few that a machine's speed rarely changes meanwhile, and so many that few starts are needed.
const stackRuns = 5

// stackCost measures what xdpcap --drops adds to a packet's time in the kernel's stack: for packets
// that the stack throws away or, if the configuration keeps none, for others. BPF_PROG_RUN cannot
// run programs at tracepoints. So it runs an XDP program that passes the packets to the stack. When
// the run ends, the stack is done with them.
func (l *lab) stackCost(ctx context.Context, p *program, c *config, transport string) (all []float64, err error) {
	t := p.tool(c.what, transport, xdp.Pass, append([]string{"-i", rxName, "--drops"}, c.args...)...)
	if !strings.Contains(p.help, "--drops") {
		t.missing = "this xdpcap has no --drops"
	}
	frame, repeat := consumedFrame(), repeatFor(c.size, c.kept)
	if c.kept > 0 {
		frame = thrownAwayFrame(c.size)
	}
	for len(all) < l.runs {
		without, err := l.passToStack(frame, repeat, stackRuns)
		if err != nil {
			return nil, err
		}
		with, n, err := l.besideDrops(ctx, t, frame, repeat)
		if err != nil {
			return nil, err
		}
		if wanted := uint64(c.kept) * uint64(repeat*stackRuns); n.seen != wanted {
			return nil, fmt.Errorf("--drops has seen %d packets, not %d", n.seen, wanted)
		}
		if n.lost > 0 {
			all = nil
			if repeat, err = fewer(repeat); err != nil {
				return nil, err
			}
			continue
		}
		for i := range with {
			all = append(all, with[i]-without[i])
		}
	}
	return all, ctx.Err()
}

// dropsCost measures what the command drops adds to a packet's time in the stack.
func (l *lab) dropsCost(ctx context.Context, t tool, frame []byte) (all []float64, err error) {
	repeat := repeatFor(shortSize, 0)
	for len(all) < l.runs {
		without, err := l.passToStack(frame, repeat, stackRuns)
		if err != nil {
			return nil, err
		}
		process, err := startProcess(ctx, l.pass.pair.Rx, t, toolCPU)
		if err != nil {
			return nil, err
		}
		with, err := l.passToStack(frame, repeat, stackRuns)
		if err := errors.Join(err, process.stop()); err != nil {
			return nil, err
		}
		for i := range with {
			all = append(all, with[i]-without[i])
		}
	}
	return all, ctx.Err()
}

// besideDrops passes packets to the stack while a tool runs, and returns its counts, too.
func (l *lab) besideDrops(ctx context.Context, t tool, frame []byte, repeat int) (ns []float64, n counts, err error) {
	process, err := startProcess(ctx, l.pass.pair.Rx, t, toolCPU)
	if err != nil {
		return nil, n, err
	}
	defer func() {
		_, endErr := process.end()
		err = errors.Join(err, endErr)
	}()
	for range stackRuns {
		some, err := l.passToStack(frame, repeat, 1)
		if err != nil {
			return nil, n, err
		}
		ns = append(ns, some...)
		if n, err = process.settle(ctx); err != nil {
			return nil, n, err
		}
	}
	return ns, n, nil
}

// passToStack passes a frame to the stack so often, several times, and returns the CPU time of a
// packet in ns each time. The frame comes from an interface that runs a program which passes it.
func (l *lab) passToStack(frame []byte, repeat, times int) (all []float64, err error) {
	opts := ebpf.RunOptions{
		Data:    frame,
		Context: contextOf(frame, l.pass.pair.RxIndex),
		Repeat:  uint32(repeat),
		Flags:   unix.BPF_F_TEST_XDP_LIVE_FRAMES,
	}
	for range times {
		ns, err := timeRun(l.passing.Program(), l.pass.pair.Rx, 0, opts, func() {})
		if err != nil {
			return nil, err
		}
		all = append(all, ns)
	}
	return all, nil
}

// thrownAwayFor is why the stack throws away a thrownAwayFrame. Where xdpcap is asked for a reason,
// it does not trace the XDP program that passes the packets, whose time would be measured, too.
const thrownAwayFor = "IP_CSUM"

// thrownAwayFrame is a frame that the stack throws away early: its IP header's checksum is wrong.
func thrownAwayFrame(size int) []byte {
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
