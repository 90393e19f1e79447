package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const rxName = "rx0"

// Lengths of frames as programs see them, without the checksum: of 64 bytes, the shortest, of 300
// and 512 bytes, and of 1518 bytes, the longest for an MTU of 1500. jumboSize is that of frames
// that only a packet socket sends: the kernel's live frames must fit into a page.
const (
	shortSize  = testnet.MinFrame
	smallSize  = 296
	middleSize = 508
	longSize   = 1514
	jumboSize  = 8996

	checksum = 4
)

// wireSize returns a frame's size on the wire, with its checksum.
func wireSize(size int) int { return size + checksum }

// closers close what was opened, in the opposite order.
type closers []func() error

func (c *closers) later(close func() error) { *c = append(*c, close) }

func (c *closers) close() (err error) {
	for _, close := range slices.Backward(*c) {
		err = errors.Join(err, close())
	}
	return err
}

// A lane is a pair with senders, and a second pair after it. Most hosts that run XDP programs pass
// traffic on, so the receiving side routes it to the second pair, whose XDP program drops it. A
// host that discards the packets, because an address or room in a socket is missing, would make
// XDP_PASS look cheaper than it is.
type lane struct {
	closers
	pair    *testnet.Pair
	senders []sender // one for each CPU that sends, from CPU 0 on
}

// A sender sends frames into a lane's pair from a CPU of its own, until ctx is done, at a rate; 0
// is as fast as possible. Result.Sent counts the frames that the receiving side took.
type sender func(ctx context.Context, size int, rate float64) (testnet.Result, error)

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
	l.later(l.pair.Close)
	p.Tx, p.TxName, p.RxName = l.pair.Rx, "out0", "far0"
	onward, err := testnet.NewPair(p)
	if err != nil {
		return err
	}
	l.later(onward.Close)
	if _, err := l.attach(onward, xdp.Drop); err != nil {
		return err
	}
	if err := l.pair.Rx.Do(func() error { return route(onward.TxIndex) }); err != nil {
		return fmt.Errorf("make the receiving side a router: %w", err)
	}
	for cpu := range opts.cpus {
		s, err := l.newSender(cpu, opts.jumbo)
		if err != nil {
			return err
		}
		l.senders = append(l.senders, s)
	}
	return nil
}

// attach attaches a program that returns a verdict, until close.
func (c *closers) attach(to *testnet.Pair, verdict xdp.Verdict) (*testnet.Receiver, error) {
	r, err := testnet.AttachReceiver(to.Rx, to.RxName, verdict, testnet.ReceiverOptions{})
	if err == nil {
		c.later(r.Close)
	}
	return r, err
}

// route makes the calling thread's namespace send the traffic on to an interface.
func route(onward int) error {
	for _, setting := range []string{"ip_forward=1", "conf/all/rp_filter=0", "conf/" + rxName + "/rp_filter=0"} {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	destination := testnet.RxEndpoint.IPv4
	err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex:    onward,
		State:        netlink.NUD_PERMANENT,
		IP:           destination,
		HardwareAddr: testnet.RxEndpoint.MAC,
	})
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{
		LinkIndex: onward,
		Dst:       &net.IPNet{IP: destination, Mask: net.CIDRMask(32, 32)},
		Scope:     netlink.SCOPE_LINK,
	})
}

// newSender makes a sender of the kernel's live frames or, for long frames, of a packet socket's.
func (l *lane) newSender(cpu int, jumbo bool) (sender, error) {
	if jumbo {
		s, err := testnet.NewSender(l.pair.Tx, l.pair.TxName)
		if err != nil {
			return nil, err
		}
		l.later(s.Close)
		return func(ctx context.Context, size int, rate float64) (testnet.Result, error) {
			return l.sendBySocket(ctx, s, cpu, testnet.UDPFrame(size, 0), rate)
		}, nil
	}
	g, err := testnet.NewGenerator(l.pair)
	if err != nil {
		return nil, err
	}
	l.later(g.Close)
	return func(ctx context.Context, size int, rate float64) (testnet.Result, error) {
		return g.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Rate: rate, CPU: cpu})
	}, nil
}

// sendBySocket sends frames with one system call each.
func (l *lane) sendBySocket(ctx context.Context, s *testnet.Sender, cpu int, frame []byte, rate float64) (r testnet.Result, err error) {
	before, err := l.pair.Stats()
	if err != nil {
		return r, err
	}
	var sent uint64
	err = machine.Quiet(cpu, func() (err error) {
		start := time.Now()
		for ctx.Err() == nil {
			// A frame that found no room is not sent again. At rate 0, which is unlimited, only
			// delivered frames count.
			if err := s.Send(frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return err
			}
			sent++
			if rate > 0 {
				for due := time.Duration(float64(sent) / rate * 1e9); time.Since(start) < due; {
				}
			}
		}
		r.Elapsed = time.Since(start)
		return nil
	})
	if err != nil {
		return r, err
	}
	// The driver counts a frame once the receiving side has taken it.
	err = await(context.Background(), "the frames to arrive", func() (bool, error) {
		now, err := l.pair.Stats()
		r.Sent = now.Delivered - before.Delivered
		return r.Sent+now.Dropped-before.Dropped >= sent, err
	})
	return r, err
}

// send sends frames for a time at a rate; 0 is as fast as possible. It returns their number and the
// rate that was reached. On a busy machine the senders may start so late that they send for less
// than half of the time. Then send tries again with twice the time. It fails if even more than a
// minute was too short, or if ctx is cancelled.
func (l *lane) send(ctx context.Context, size int, rate float64, duration time.Duration) (sent uint64, reached float64, err error) {
	for least := duration / 2; ; duration *= 2 {
		some, reached, err := l.sendOnce(ctx, size, rate, duration, least)
		sent += some // the tool captures the frames of a run that is too short, too
		if err != nil || reached > 0 {
			return sent, reached, err
		}
		if duration > testnet.Patience {
			return sent, 0, fmt.Errorf("no traffic of %v within %v: the machine is too busy", least, duration)
		}
	}
}

// sendOnce sends from all senders at the same time. The time includes what they need to start. The
// returned rate is 0 if one of them then sent for less than `least`.
func (l *lane) sendOnce(ctx context.Context, size int, rate float64, duration, least time.Duration) (sent uint64, reached float64, err error) {
	timed, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	results := make([]testnet.Result, len(l.senders))
	errs := make([]error, len(l.senders))
	var all sync.WaitGroup
	for i, send := range l.senders {
		all.Go(func() { results[i], errs[i] = send(timed, size, rate/float64(len(l.senders))) })
	}
	all.Wait()
	short := false
	for _, r := range results {
		sent += r.Sent
		reached += r.Rate()
		short = short || r.Elapsed < least
	}
	if short {
		reached = 0
	}
	return sent, reached, errors.Join(append(errs, ctx.Err())...)
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
	closers // of all lanes
	*lane
	drop, pass *lane
	passing    *testnet.Receiver // the program of pass
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
		n.later((*l).close)
	}
	if _, err = n.attach(n.drop.pair, xdp.Drop); err != nil {
		return n, err
	}
	n.passing, err = n.attach(n.pass.pair, xdp.Pass)
	return n, err
}

func (n *network) close() error { return n.closers.close() }

// bare returns the lane whose XDP program only returns a verdict.
func (n *network) bare(verdict xdp.Verdict) *lane {
	if verdict == xdp.Drop {
		return n.drop
	}
	return n.pass
}
