package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const (
	rxName       = "rx0"
	generatorCPU = 0
	runTime      = 700 * time.Millisecond // of traffic
)

// A network is a pair with a generator, and a second pair behind it. The receiving side routes the
// traffic on to the second pair, where an XDP program drops it, because most XDP programs run on
// hosts that pass traffic on. A host that discards the packets, for want of an address or of a
// socket with room, would make XDP_PASS look cheaper than it is.
type network struct {
	pair, onward *testnet.Pair
	end          *testnet.Receiver // drops the traffic behind the second pair
	generator    *testnet.Generator
	runTime      time.Duration
}

func newNetwork() (*network, error) {
	n := &network{runTime: runTime}
	if err := n.make(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *network) make() (err error) {
	if n.pair, err = testnet.NewPair(testnet.PairOptions{RxName: rxName}); err != nil {
		return err
	}
	if n.onward, err = testnet.NewPair(testnet.PairOptions{Tx: n.pair.Rx, TxName: "out0", RxName: "far0"}); err != nil {
		return err
	}
	if n.end, err = testnet.AttachReceiver(n.onward.Rx, n.onward.RxName, xdp.Drop, testnet.ReceiverOptions{}); err != nil {
		return err
	}
	if err := n.pair.Rx.Do(n.route); err != nil {
		return fmt.Errorf("make the receiving side a router: %w", err)
	}
	n.generator, err = testnet.NewGenerator(n.pair)
	return err
}

// route runs inside the receiving namespace.
func (n *network) route() error {
	for _, setting := range []string{"ip_forward=1", "conf/all/rp_filter=0", "conf/" + rxName + "/rp_filter=0"} {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	destination := testnet.RxEndpoint.IPv4
	err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex:    n.onward.TxIndex,
		State:        netlink.NUD_PERMANENT,
		IP:           destination,
		HardwareAddr: testnet.RxEndpoint.MAC,
	})
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{
		LinkIndex: n.onward.TxIndex,
		Dst:       &net.IPNet{IP: destination, Mask: net.CIDRMask(32, 32)},
		Scope:     netlink.SCOPE_LINK,
	})
}

func (n *network) close() error {
	var errs []error
	if n.generator != nil {
		errs = append(errs, n.generator.Close())
	}
	if n.end != nil {
		errs = append(errs, n.end.Close())
	}
	for _, p := range []*testnet.Pair{n.onward, n.pair} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// starts is how often traffic is started before send gives up: on a busy machine the generator may
// take the time of a whole run to begin.
const starts = 5

// send sends frames at a rate, 0 for as many as it can. It returns their number and the rate that
// was reached. It fails if ctx is cancelled.
func (n *network) send(ctx context.Context, size int, rate float64) (sent uint64, real float64, err error) {
	for range starts {
		r, err := n.sendOnce(ctx, size, rate)
		sent += r.Sent // the tool captures the frames of a run that is too short, too
		if err != nil {
			return sent, 0, err
		}
		if r.Elapsed >= n.runTime/2 {
			return sent, r.Rate(), nil
		}
	}
	return sent, 0, fmt.Errorf("no traffic of %v in %d times: the machine is too busy", n.runTime/2, starts)
}

func (n *network) sendOnce(ctx context.Context, size int, rate float64) (testnet.Result, error) {
	timed, cancel := context.WithTimeout(ctx, n.runTime)
	defer cancel()
	r, err := n.generator.Run(timed, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Rate: rate, CPU: generatorCPU})
	return r, errors.Join(err, ctx.Err())
}

// withoutTool returns the highest rate of the traffic alone, under an XDP program that does nothing
// but return the verdict. No frame is lost, as Generator.Run explains.
func (n *network) withoutTool(ctx context.Context, verdict xdp.Verdict, size int) (rate float64, err error) {
	v, err := testnet.AttachReceiver(n.pair.Rx, rxName, verdict, testnet.ReceiverOptions{})
	if err != nil {
		return 0, err
	}
	_, rate, err = n.send(ctx, size, 0)
	return rate, errors.Join(err, v.Close())
}

// A trial is the result of one run of traffic with a tool.
type trial struct {
	rate           float64 // of the traffic, packets per second
	sent, captured uint64
	cpu            time.Duration // of the tool
}

func (t trial) lossless() bool { return t.captured == t.sent }

// cpuPerPacket returns the tool's CPU time per captured packet, in microseconds.
func (t trial) cpuPerPacket() float64 {
	return t.cpu.Seconds() * 1e6 / float64(t.captured)
}

// withTool runs a tool and sends at a rate, 0 for as many packets as it can.
func (n *network) withTool(ctx context.Context, t *tool, size int, rate float64) (tr trial, err error) {
	if t.onStack {
		v, err := testnet.AttachReceiver(n.pair.Rx, rxName, t.verdict, testnet.ReceiverOptions{})
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

// sendPast sends while the tool runs. It measures the CPU time from before the first packet until
// the last one was read: starting and ending the tool is not included.
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
