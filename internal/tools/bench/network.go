package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// A network has a lane for the tool under test, and two whose XDP programs only return a verdict.
// Traffic goes to one after the other in short bursts, because a machine's speed may change from
// one second to the next, when somebody else uses the other half of a core: only neighbouring
// bursts are compared.
type network struct {
	*lane
	drop, pass *lane
	passing    *testnet.Receiver // the program of pass
}

type networkOptions struct {
	isJumbo bool // MTU 9000, and frames from a packet socket
	cpus    int  // that send, each into a queue of its own; 0: 1
}

// newNetwork makes a network, which is removed when t ends.
func newNetwork(t testnet.TB, opts networkOptions) *network {
	n := &network{lane: newLane(t, opts), drop: newLane(t, opts), pass: newLane(t, opts)}
	testnet.MustReceiver(t, n.drop.pair, xdp.Drop, testnet.ReceiverOptions{})
	n.passing = testnet.MustReceiver(t, n.pass.pair, xdp.Pass, testnet.ReceiverOptions{})
	return n
}

// bare returns the lane whose XDP program only returns a verdict.
func (n *network) bare(verdict xdp.Verdict) *lane {
	if verdict == xdp.Drop {
		return n.drop
	}
	return n.pass
}

// A lane is a pair with senders, and a second pair after it. Most hosts that run XDP programs pass
// traffic on, so the receiving side routes it to the second pair, whose XDP program drops it. A
// host that discards the packets, because an address or room in a socket is missing, would make
// XDP_PASS look cheaper than it is.
type lane struct {
	pair    *testnet.Pair
	senders []sender // one for each CPU that sends, from CPU 0 on
}

func newLane(t testnet.TB, opts networkOptions) *lane {
	cpus := max(opts.cpus, 1)
	p := testnet.PairOptions{RxName: rxName, Queues: cpus}
	if opts.isJumbo {
		p.MTU = 9000
	}
	l := &lane{pair: testnet.MustPair(t, p)}
	p.Tx, p.TxName, p.RxName = l.pair.Rx, "out0", "far0"
	onward := testnet.MustPair(t, p)
	testnet.MustReceiver(t, onward, xdp.Drop, testnet.ReceiverOptions{})
	testnet.MustKnow(t, l.pair.Rx, onward.TxIndex, testnet.RxEndpoint)
	if err := l.pair.Rx.Do(func() error { return routeTo(onward.TxIndex) }); err != nil {
		t.Fatalf("make the receiving side a router: %v", err)
	}
	for cpu := range cpus {
		l.senders = append(l.senders, l.newSender(t, cpu, opts.isJumbo))
	}
	return l
}

// routeTo makes the calling thread's namespace send the traffic on to an interface.
func routeTo(onward int) error {
	for _, setting := range []string{"ip_forward=1", "conf/all/rp_filter=0", "conf/" + rxName + "/rp_filter=0"} {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	destination := netlink.NewIPNet(testnet.RxEndpoint.IPv4)
	return netlink.RouteAdd(&netlink.Route{LinkIndex: onward, Dst: destination, Scope: netlink.SCOPE_LINK})
}

// A sender sends frames into a lane's pair from a CPU of its own, until ctx is done, at a rate; 0
// is as fast as possible. Result.Sent counts the frames that the receiving side took.
type sender func(ctx context.Context, size int, rate float64) (testnet.Result, error)

// newSender makes a sender of the kernel's live frames or, for long frames, of a packet socket's.
func (l *lane) newSender(t testnet.TB, cpu int, isJumbo bool) sender {
	if isJumbo {
		s := testnet.MustSender(t, l.pair)
		return func(ctx context.Context, size int, rate float64) (testnet.Result, error) {
			return l.sendBySocket(ctx, s, cpu, testnet.UDPFrame(size, 0), rate)
		}
	}
	g := testnet.MustGenerator(t, l.pair)
	return func(ctx context.Context, size int, rate float64) (testnet.Result, error) {
		return g.Run(ctx, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Rate: rate, CPU: cpu})
	}
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
			// A frame for which the ring had no room is not sent again. At rate 0, which is
			// unlimited, only delivered frames count.
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
	for deadline := time.Now().Add(testnet.Patience); ; time.Sleep(time.Millisecond) {
		now, err := l.pair.Stats()
		r.Sent = now.Delivered - before.Delivered
		if err != nil || r.Sent+now.Dropped-before.Dropped >= sent {
			return r, err
		}
		if time.Now().After(deadline) {
			return r, fmt.Errorf("of %d frames %d arrived", sent, r.Sent)
		}
	}
}

// send sends frames for a time at a rate; 0 is as fast as possible. It returns their number and the
// rate that was reached. On a busy machine the senders may start so late that they send for less
// than half of the time. Then send tries again with twice the time. It fails if even more than a
// minute was too short.
func (l *lane) send(t testnet.TB, size int, rate float64, duration time.Duration) (sent uint64, reached float64) {
	for least := duration / 2; ; duration *= 2 {
		some, reached, err := l.sendOnce(t.Context(), size, rate, duration, least)
		testnet.Must(t, err)
		sent += some // the tool captures the frames of a run that is too short, too
		if reached > 0 {
			return sent, reached
		}
		if duration > testnet.Patience {
			t.Fatalf("no traffic of %v within %v: the machine is too busy", least, duration)
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
	isShort := false
	for _, r := range results {
		sent += r.Sent
		reached += r.Rate()
		isShort = isShort || r.Elapsed < least
	}
	if isShort {
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
