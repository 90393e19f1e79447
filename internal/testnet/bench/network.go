package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

const (
	rxName       = "rx0"
	generatorCPU = 0
	runTime      = 700 * time.Millisecond // of traffic
)

// A network is a pair with a generator, and a UDP socket that the traffic is
// for. Nobody reads it, and it drops what it has no room for; but without it
// the stack would throw packets out at its door, or answer them, and XDP_PASS
// would not cost what it costs a host.
type network struct {
	pair      *testnet.Pair
	generator *testnet.Generator
	socket    int
}

func newNetwork() (*network, error) {
	pair, err := testnet.NewPair(testnet.PairOptions{RxName: rxName, Addresses: true})
	if err != nil {
		return nil, err
	}
	n := &network{pair: pair, socket: -1}
	if n.generator, err = testnet.NewGenerator(pair); err != nil {
		return nil, errors.Join(err, pair.Close())
	}
	if err := pair.Rx.Do(n.listen); err != nil {
		return nil, errors.Join(fmt.Errorf("open UDP socket: %w", err), n.close())
	}
	return n, nil
}

// listen runs inside the namespace.
func (n *network) listen() (err error) {
	if n.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	return unix.Bind(n.socket, &unix.SockaddrInet4{Port: testnet.NumberedPort})
}

func (n *network) close() error {
	if n.socket >= 0 {
		unix.Close(n.socket)
	}
	return errors.Join(n.generator.Close(), n.pair.Close())
}

// starts is how often traffic is tried. A busy machine may take the whole run's
// time to begin.
const starts = 5

// send sends frames at a rate, 0 for as many as it can, and returns their
// number and the rate that it really was. A cancelled ctx is an error.
func (n *network) send(ctx context.Context, size int, rate float64) (sent uint64, real float64, err error) {
	for range starts {
		r, err := n.sendOnce(ctx, size, rate)
		sent += r.Sent // too short a run also went past the tool
		if err != nil {
			return sent, 0, err
		}
		if r.Elapsed >= runTime/2 {
			return sent, r.Rate(), nil
		}
	}
	return sent, 0, fmt.Errorf("no traffic of %v in %d times: the machine is too busy", runTime/2, starts)
}

func (n *network) sendOnce(ctx context.Context, size int, rate float64) (testnet.Result, error) {
	timed, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	r, err := n.generator.Run(timed, testnet.GeneratorOptions{
		Frame: testnet.UDPFrame(size, 0),
		Rate:  rate,
		CPU:   generatorCPU,
	})
	return r, errors.Join(err, ctx.Err())
}

// withoutTool is the highest rate of the traffic alone, under an XDP program
// that does nothing but return the verdict. Nothing is lost: Generator.Run.
func (n *network) withoutTool(ctx context.Context, verdict testnet.Action, size int) (rate float64, err error) {
	v, err := testnet.AttachVerdict(n.pair.Rx, rxName, verdict, testnet.VerdictOptions{})
	if err != nil {
		return 0, err
	}
	_, rate, err = n.send(ctx, size, 0)
	return rate, errors.Join(err, v.Close())
}

// A trial is what came of one run of traffic past a tool.
type trial struct {
	rate           float64 // of the traffic, packets per second
	sent, captured uint64
	cpu            time.Duration // of the tool
}

func (t trial) lossless() bool { return t.captured == t.sent }

// cpuPerPacket is the tool's CPU time per captured packet, in microseconds.
func (t trial) cpuPerPacket() float64 {
	return t.cpu.Seconds() * 1e6 / float64(t.captured)
}

// withTool sends past a tool at a rate, 0 for as many as it can.
func (n *network) withTool(ctx context.Context, t *tool, size int, rate float64) (tr trial, err error) {
	if t.onStack {
		v, err := testnet.AttachVerdict(n.pair.Rx, rxName, t.verdict, testnet.VerdictOptions{})
		if err != nil {
			return trial{}, err
		}
		defer v.Close()
	}
	p, err := startProcess(ctx, n.pair.Rx, t)
	if err != nil {
		return trial{}, err
	}
	tr, err = n.sendPast(ctx, p, size, rate)
	captured, endErr := p.end()
	if err := errors.Join(err, endErr); err != nil {
		return trial{}, err
	}
	if captured > tr.sent {
		return trial{}, fmt.Errorf("captured %d packets, but %d were sent", captured, tr.sent)
	}
	tr.captured = captured
	return tr, nil
}

// sendPast takes the CPU time from before the first packet until the last one
// was read: starting and ending the tool is not in it.
func (n *network) sendPast(ctx context.Context, p *process, size int, rate float64) (trial, error) {
	before, err := p.cpu()
	if err != nil {
		return trial{}, err
	}
	sent, real, err := n.send(ctx, size, rate)
	if err != nil {
		return trial{}, err
	}
	time.Sleep(p.tool.handOver)
	after, err := p.cpu()
	return trial{rate: real, sent: sent, cpu: after - before}, err
}
