package drops

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A card reads the counters of an interface and its driver.
type card struct {
	iface xdp.Interface
	first cardState

	mu   sync.Mutex
	last cardState // the previous reading, which is returned again when the interface is gone
}

// A cardState has the counters of an interface at one time, cumulative since the interface was
// created.
type cardState struct {
	link   netlink.LinkStatistics64
	driver map[string]uint64 // as `ethtool -S` names them
	queues map[uint32]lost.QueueDrops
}

// openCard reads the counters from which the rises are counted.
func openCard(iface xdp.Interface) (c *card, err error) {
	c = &card{iface: iface}
	c.first, err = c.state()
	c.last = c.first
	return c, err
}

func (c *card) state() (s cardState, err error) {
	l, err := netlink.LinkByIndex(c.iface.Index)
	if err != nil {
		return s, fmt.Errorf("ask for the statistics of %s: %w", c.iface.Name, err)
	}
	if all := l.Attrs().Statistics; all != nil {
		s.link = netlink.LinkStatistics64(*all)
	}
	s.queues = lost.ReadQueues(c.iface.Index)
	s.driver, err = xdp.DriverCounters(l.Attrs().Name)
	return s, err
}

// A cardReading is how the counters rose since openCard.
type cardReading struct {
	noBuffer uint64 // packets for which the card had no room
	corrupt  uint64 // packets with a wrong checksum, length or alignment
	unsent   uint64 // packets that failed on their way out
	lost     uint64 // packets that the driver lost in its receive queues, of all causes
	xdpDrops uint64 // packets that the driver counts as dropped by XDP; see driverKind

	queues map[uint32]lost.QueueDrops // by receive queue; nil = the driver does not report them
}

// read returns how the counters rose since openCard.
func (c *card) read() (r cardReading, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.state()
	if gone := (netlink.LinkNotFoundError{}); errors.As(err, &gone) {
		return c.since(c.last), nil
	}
	if err != nil {
		return r, err
	}
	c.last = now
	return c.since(now), nil
}

// since returns how the counters rose from c.first to now.
func (c *card) since(now cardState) (r cardReading) {
	l, before := now.link, c.first.link
	// Several drivers count one loss in two or three of these, so the largest counts.
	r.noBuffer = max(lost.Rise(before.RxMissedErrors, l.RxMissedErrors), lost.Rise(before.RxFifoErrors, l.RxFifoErrors),
		lost.Rise(before.RxOverErrors, l.RxOverErrors))
	// Some drivers count only the total, and others do not add all kinds of errors to it.
	r.corrupt = max(minus(lost.Rise(before.RxErrors, l.RxErrors), r.noBuffer),
		lost.Rise(before.RxCrcErrors, l.RxCrcErrors)+lost.Rise(before.RxFrameErrors, l.RxFrameErrors)+lost.Rise(before.RxLengthErrors, l.RxLengthErrors))
	r.unsent = max(lost.Rise(before.TxErrors, l.TxErrors), lost.Rise(before.TxCarrierErrors, l.TxCarrierErrors)+
		lost.Rise(before.TxAbortedErrors, l.TxAbortedErrors)+lost.Rise(before.TxFifoErrors, l.TxFifoErrors))
	for queue, drops := range now.queues {
		if r.queues == nil {
			r.queues = make(map[uint32]lost.QueueDrops)
		}
		r.queues[queue] = drops.Since(c.first.queues[queue])
		// The interface's statistics include the drops of its queues.
		r.noBuffer = minus(r.noBuffer, r.queues[queue].All)
	}
	kind := driverKinds[c.iface.Driver]
	for name, value := range now.driver {
		n := lost.Rise(c.first.driver[name], value)
		counter, ok := counterOfQueue(name)
		if n == 0 || !ok {
			continue
		}
		switch counter {
		case kind.lost:
			r.lost += n
		case kind.xdpDrops:
			r.xdpDrops += n
		}
	}
	return r
}

// addCard adds the losses that the interface and its driver count, except those at the XDP hook.
func (r *reading) addCard(kind driverKind) {
	packets := func(n uint64) Tally { return Tally{Packets: n} }
	r.addUnseen(Loss{Stage: Card, Reason: "rx_missed"}, packets(r.card.noBuffer))
	for queue, drops := range r.card.queues {
		at := fmt.Sprintf("queue %d", queue)
		r.addUnseen(Loss{Stage: Card, Reason: "rx_missed", Where: at}, packets(drops.Overruns))
		r.addUnseen(Loss{Stage: Card, Reason: "rx_hw_drops", Where: at}, packets(minus(drops.All, drops.Overruns)))
	}
	r.addUnseen(Loss{Stage: Card, Reason: "rx_errors"}, packets(r.card.corrupt))
	r.addUnseen(Loss{Stage: Egress, Reason: "tx_errors"}, packets(r.card.unsent))

	atHook := uint64(0) // packets in r.card.lost that were lost at the XDP hook
	if kind.lostHasXDP {
		atHook += r.card.xdpDrops
	}
	if kind.lostHasErrors {
		atHook += r.failures.redirects + r.failures.tx
	}
	// The rest is computed for all queues together, because failures are not counted by queue.
	r.addUnseen(Loss{Stage: Card, Reason: "driver"}, packets(minus(r.card.lost, atHook)))
}

// A driverKind has the names of a driver's counters of losses per receive queue, and the packets
// that they include.
type driverKind struct {
	lost     string // all packets that did not leave the hook for the stack or another interface
	xdpDrops string // packets that were dropped in or right after the XDP program

	lostHasXDP    bool // `lost` includes xdpDrops
	xdpHasErrors  bool // xdpDrops includes failed redirects and failed tx
	lostHasErrors bool // `lost` includes failed redirects and failed tx, besides xdpDrops
}

// driverKinds were tested on Linux 6.1, 6.12 and 6.18.
var driverKinds = map[string]driverKind{
	"veth":       {lost: "drops", xdpDrops: "xdp_drops", lostHasErrors: true},
	"virtio_net": {lost: "drops", xdpDrops: "xdp_drops", lostHasXDP: true, xdpHasErrors: true},
}

// counterOfQueue returns a receive queue's counter without the queue: "drops" for rx_queue_3_drops
// and for rx3_drops. ok is false for another counter.
func counterOfQueue(name string) (counter string, ok bool) {
	rest, ok := strings.CutPrefix(name, "rx")
	if !ok {
		return "", false
	}
	queue, counter, ok := strings.Cut(strings.TrimPrefix(rest, "_queue_"), "_")
	return counter, ok && queue != "" && strings.Trim(queue, "0123456789") == ""
}
