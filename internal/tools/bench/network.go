package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const rxName = "rx0"

// A lane is a pair with senders, and a second pair after it. The receiving side routes the traffic
// to the second pair, where an XDP program drops it, because most hosts that run XDP programs pass
// traffic on. A host that discards the packets, because an address or room in a socket is missing,
// would make XDP_PASS look cheaper than it is.
type lane struct {
	pair, onward *testnet.Pair
	end          *testnet.Receiver // drops the traffic behind the second pair
	senders      []sender          // one for each CPU that sends, from CPU 0 on
}

// A sender sends traffic into a lane's pair, from a CPU of its own.
type sender interface {
	// run sends frames until ctx is done, at a rate; 0 is as fast as possible. Result.Sent counts
	// the frames that the receiving side took.
	run(ctx context.Context, size int, rate float64) (testnet.Result, error)
	Close() error
}

type networkOptions struct {
	jumbo bool // MTU 9000, and frames from a packet socket
	cpus  int  // that send, each into a queue of its own
}

func newLane(opts networkOptions) (*lane, error) {
	l := &lane{}
	if err := l.make(opts); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lane) make(opts networkOptions) (err error) {
	p := testnet.PairOptions{RxName: rxName, Queues: opts.cpus}
	if opts.jumbo {
		p.MTU = 9000
	}
	if l.pair, err = testnet.NewPair(p); err != nil {
		return err
	}
	p.Tx, p.TxName, p.RxName = l.pair.Rx, "out0", "far0"
	if l.onward, err = testnet.NewPair(p); err != nil {
		return err
	}
	if l.end, err = testnet.AttachReceiver(l.onward.Rx, l.onward.RxName, xdp.Drop, testnet.ReceiverOptions{}); err != nil {
		return err
	}
	if err := l.pair.Rx.Do(l.route); err != nil {
		return fmt.Errorf("make the receiving side a router: %w", err)
	}
	for cpu := range opts.cpus {
		s, err := newSender(l.pair, cpu, opts.jumbo)
		if err != nil {
			return err
		}
		l.senders = append(l.senders, s)
	}
	return nil
}

// route runs inside the receiving namespace.
func (l *lane) route() error {
	for _, setting := range []string{"ip_forward=1", "conf/all/rp_filter=0", "conf/" + rxName + "/rp_filter=0"} {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	destination := testnet.RxEndpoint.IPv4
	err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex:    l.onward.TxIndex,
		State:        netlink.NUD_PERMANENT,
		IP:           destination,
		HardwareAddr: testnet.RxEndpoint.MAC,
	})
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{
		LinkIndex: l.onward.TxIndex,
		Dst:       &net.IPNet{IP: destination, Mask: net.CIDRMask(32, 32)},
		Scope:     netlink.SCOPE_LINK,
	})
}

func (l *lane) close() error {
	var errs []error
	for _, s := range l.senders {
		errs = append(errs, s.Close())
	}
	if l.end != nil {
		errs = append(errs, l.end.Close())
	}
	for _, p := range []*testnet.Pair{l.onward, l.pair} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// send sends frames for a time at a rate; 0 is as fast as possible. It returns their number and the
// rate that was reached. On a busy machine the senders may start so late that they send for less
// than half of the time. Then send tries again with twice the time. It fails if even more than a
// minute was too short, or if ctx is cancelled.
func (l *lane) send(ctx context.Context, size int, rate float64, time time.Duration) (sent uint64, real float64, err error) {
	for least := time / 2; ; time *= 2 {
		some, real, err := l.sendOnce(ctx, size, rate, time, least)
		sent += some // the tool captures the frames of a run that is too short, too
		if err != nil || real > 0 {
			return sent, real, err
		}
		if time > testnet.Patience {
			return sent, 0, fmt.Errorf("no traffic of %v within %v: the machine is too busy", least, time)
		}
	}
}

// sendOnce sends from all senders at the same time. The time includes what they need to start. The
// returned rate is 0 if one of them then sent for less than `least`.
func (l *lane) sendOnce(ctx context.Context, size int, rate float64, time, least time.Duration) (sent uint64, real float64, err error) {
	timed, cancel := context.WithTimeout(ctx, time)
	defer cancel()
	results := make([]testnet.Result, len(l.senders))
	errs := make([]error, len(l.senders))
	var all sync.WaitGroup
	for i, s := range l.senders {
		all.Go(func() { results[i], errs[i] = s.run(timed, size, rate/float64(len(l.senders))) })
	}
	all.Wait()
	short := false
	for _, r := range results {
		sent += r.Sent
		real += r.Rate()
		short = short || r.Elapsed < least
	}
	if short {
		real = 0
	}
	return sent, real, errors.Join(append(errs, ctx.Err())...)
}

// toolCPUs returns the CPUs that a tool runs on, in taskset's notation.
func (l *lane) toolCPUs() string {
	if len(l.senders) > 1 {
		return allCPUs
	}
	return toolCPU
}

// A network has a lane for the tool under test, and two whose XDP programs only return a verdict.
// Traffic goes to one after the other in short bursts, because a machine's speed may change from
// one second to the next, when somebody else uses the other half of a core: only neighbouring
// bursts are compared.
type network struct {
	*lane
	drop, pass *lane

	dropping, passing *testnet.Receiver // the programs of these two
}

func newNetwork(opts networkOptions) (n *network, err error) {
	n = &network{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	for _, l := range []**lane{&n.lane, &n.drop, &n.pass} {
		if *l, err = newLane(opts); err != nil {
			return n, err
		}
	}
	if n.dropping, err = testnet.AttachReceiver(n.drop.pair.Rx, rxName, xdp.Drop, testnet.ReceiverOptions{}); err != nil {
		return n, err
	}
	n.passing, err = testnet.AttachReceiver(n.pass.pair.Rx, rxName, xdp.Pass, testnet.ReceiverOptions{})
	return n, err
}

func (n *network) close() error {
	var errs []error
	for _, r := range []*testnet.Receiver{n.dropping, n.passing} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	for _, l := range []*lane{n.lane, n.drop, n.pass} {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	return errors.Join(errs...)
}

// bare returns the lane whose XDP program only returns a verdict.
func (n *network) bare(verdict xdp.Verdict) *lane {
	if verdict == xdp.Drop {
		return n.drop
	}
	return n.pass
}

// A load is the traffic of a trial.
type load struct {
	size   int
	rate   float64 // packets per second; 0: as many as it can
	bursts int
	time   time.Duration // of each burst

	beside *lane // sends a burst of unpaced traffic before each; nil: none
}

// A trial is the result of a load.
type trial struct {
	rates, beside  []float64 // of the bursts, and of those beside them, packets per second
	sent, captured uint64
	lost           uint64        // as xdpcap counts it
	cpu            time.Duration // of the tool
}

func (t trial) lossless() bool { return t.captured == t.sent }

// part returns the part of the packets that was captured.
func (t trial) part() float64 { return float64(t.captured) / float64(max(t.sent, 1)) }

// cpuPerPacket returns the tool's CPU time per captured packet, in microseconds.
func (t trial) cpuPerPacket() float64 {
	return t.cpu.Seconds() * 1e6 / float64(max(t.captured, 1))
}

// run sends the traffic on a lane.
func (w load) run(ctx context.Context, on *lane) (t trial, err error) {
	for range w.bursts {
		if w.beside != nil {
			_, rate, err := w.beside.send(ctx, w.size, 0, w.time)
			if err != nil {
				return t, err
			}
			t.beside = append(t.beside, rate)
		}
		sent, rate, err := on.send(ctx, w.size, w.rate, w.time)
		if err != nil {
			return t, err
		}
		t.sent += sent
		t.rates = append(t.rates, rate)
	}
	return t, nil
}

// withTool runs a tool and sends traffic past it. The tool stays on CPUs that do not send, if there
// are any.
func (n *network) withTool(ctx context.Context, t *tool, w load) (tr trial, err error) {
	if t.onStack {
		v, err := testnet.AttachReceiver(n.pair.Rx, rxName, t.verdict, testnet.ReceiverOptions{})
		if err != nil {
			return trial{}, err
		}
		defer v.Close()
	}
	p, err := startProcess(ctx, n.pair.Rx, t, n.toolCPUs())
	if err != nil {
		return trial{}, err
	}
	tr, err = n.sendPast(ctx, p, w)
	captured, endErr := p.end()
	if err := errors.Join(err, endErr); err != nil {
		return trial{}, err
	}
	if captured > tr.sent {
		return trial{}, fmt.Errorf("captured %d packets, but %d were sent", captured, tr.sent)
	}
	tr.captured = captured
	if c, ok := parseCounts(p.said.text()); ok {
		tr.lost = c.lost
	}
	return tr, nil
}

// sendPast sends while the tool runs. It measures the CPU time from before the first packet until
// the last one was read, without starting and stopping the tool.
func (n *network) sendPast(ctx context.Context, p *process, w load) (trial, error) {
	before, err := p.cpu()
	if err != nil {
		return trial{}, err
	}
	t, err := w.run(ctx, n.lane)
	if err != nil {
		return trial{}, err
	}
	time.Sleep(p.tool.handOver)
	after, err := p.cpu()
	t.cpu = after - before
	return t, err
}
