package culprit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A queueID identifies a qdisc. Default qdiscs of the kernel have the handle 0.
type queueID struct {
	link           int // index of the interface
	handle, parent uint32
}

// A queue is a qdisc with its counter.
type queue struct {
	id    queueID
	drops uint64
	netlink.Qdisc
}

// queues returns the qdiscs of all interfaces.
func queues() (all []queue) {
	list, err := netlink.QdiscList(nil)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	for _, q := range list {
		a := q.Attrs()
		if s := a.Statistics; s != nil && s.Queue != nil {
			all = append(all, queue{queueID{a.LinkIndex, a.Handle, a.Parent}, uint64(s.Queue.Drops), q})
		}
	}
	return all
}

// findQueues returns the queues of the loss's interface that have dropped packets. It omits a queue
// if one below it has dropped packets, because a queue also counts the drops of the queues below.
func (f *Finder) findQueues(l Loss, _ lost.Counters) (found []Evidence) {
	link, err := netlink.LinkByName(l.Device)
	if err != nil {
		return nil
	}
	a := link.Attrs()
	var dropped []queue
	for _, q := range queues() {
		if q.drops = lost.Rise(f.queues[q.id], q.drops); q.id.link == a.Index && q.drops > 0 {
			dropped = append(dropped, q)
		}
	}
	for _, q := range dropped {
		const major = 0xffff0000 // the part of a class's handle that is its qdisc's
		isBelow := func(other queue) bool {
			return q.id.handle != 0 && other.id.parent&major == q.id.handle && other.id != q.id
		}
		if slices.ContainsFunc(dropped, isBelow) {
			continue
		}
		handle := "of its own"
		if q.id.handle != 0 {
			handle = netlink.HandleStr(q.id.handle)
		}
		found = append(found, Evidence{
			Text:    fmt.Sprintf("qdisc %s %s at %s%s", q.Type(), handle, a.Name, limitOf(q.Qdisc, a.TxQLen)),
			Counter: "dropped of the qdisc", Packets: q.drops, IsOwn: true,
		})
	}
	if found == nil && (a.OperState == netlink.OperDown || a.OperState == netlink.OperLowerLayerDown) {
		return []Evidence{{Text: a.Name + " has no carrier"}}
	}
	return found
}

// limitOf returns the limit of a queue as text; "" = unknown. length is the interface's txqueuelen.
func limitOf(q netlink.Qdisc, length int) string {
	packets := func(n uint32) string { return fmt.Sprintf(", limit %d packets", n) }
	switch q := q.(type) {
	case *netlink.Tbf:
		return fmt.Sprintf(", limit %s, rate %d bit/s", machine.Amount(int64(q.Limit)), 8*q.Rate)
	case *netlink.FqCodel:
		return packets(q.Limit)
	case *netlink.Fq:
		return packets(q.PacketLimit)
	case *netlink.Netem:
		return packets(q.Limit)
	case *netlink.Sfq:
		return packets(q.Limit)
	case *netlink.PfifoFast:
		return packets(uint32(length))
	}
	return ""
}
