package lost

import (
	"encoding/binary"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
)

// The queue statistics of the netlink family "netdev", include/uapi/linux/netdev.h: the command
// since Linux 6.9, the card's drops since 6.10.
const (
	qstatsGet = 12

	qstatsIfindex   = 1
	qstatsQueueType = 2 // 0 = receive
	qstatsQueueID   = 3
	qstatsScope     = 4 // 1 = by queue
	qstatsDrops     = 13
	qstatsOverruns  = 14
)

// QueueDrops are the packets that the card lost at a receive queue.
type QueueDrops struct {
	All      uint64
	Overruns uint64 // of all: those for which there was no room
}

// Since returns by how much the counters rose.
func (d QueueDrops) Since(before QueueDrops) QueueDrops {
	return QueueDrops{Rise(before.All, d.All), Rise(before.Overruns, d.Overruns)}
}

// ReadQueues returns the losses of an interface's card, by receive queue; nil if the kernel or the
// driver does not report them.
func ReadQueues(ifindex int) map[uint32]QueueDrops {
	answers, err := support.AskNetdev(qstatsGet, unix.NLM_F_DUMP,
		nl.NewRtAttr(qstatsIfindex, nl.Uint32Attr(uint32(ifindex))), nl.NewRtAttr(qstatsScope, nl.Uint32Attr(1)))
	if err != nil {
		return nil
	}
	queues := make(map[uint32]QueueDrops)
	for _, attrs := range answers {
		if queue, drops, ok := parseQueue(attrs); ok {
			queues[queue] = drops
		}
	}
	return queues
}

// parseQueue returns the losses of a card at a queue; ok is false for a queue that sends, and if
// the driver does not report them.
func parseQueue(attrs []syscall.NetlinkRouteAttr) (queue uint32, drops QueueDrops, ok bool) {
	sends := false
	for _, a := range attrs {
		var n uint64 // an integer of 4 or 8 bytes
		switch len(a.Value) {
		case 4:
			n = uint64(binary.NativeEndian.Uint32(a.Value))
		case 8:
			n = binary.NativeEndian.Uint64(a.Value)
		}
		switch a.Attr.Type {
		case qstatsQueueType:
			sends = n != 0
		case qstatsQueueID:
			queue = uint32(n)
		case qstatsDrops:
			drops.All, ok = n, true
		case qstatsOverruns:
			drops.Overruns = n
		}
	}
	drops.All = max(drops.All, drops.Overruns)
	return queue, drops, ok && !sends
}
