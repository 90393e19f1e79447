package drops

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

// queueDrops are the packets that the card lost at a receive queue.
type queueDrops struct {
	all      uint64
	overruns uint64 // of all: those for which there was no room
}

// since is how the counters rose.
func (d queueDrops) since(before queueDrops) queueDrops {
	return queueDrops{rise(before.all, d.all), rise(before.overruns, d.overruns)}
}

// readQueues returns what an interface's card lost, by receive queue: nothing where the kernel or
// the driver does not tell.
func readQueues(ifindex int) map[uint32]queueDrops {
	answers, err := support.AskNetdev(qstatsGet, unix.NLM_F_DUMP,
		nl.NewRtAttr(qstatsIfindex, nl.Uint32Attr(uint32(ifindex))), nl.NewRtAttr(qstatsScope, nl.Uint32Attr(1)))
	if err != nil {
		return nil
	}
	queues := make(map[uint32]queueDrops)
	for _, attrs := range answers {
		if queue, drops, ok := parseQueue(attrs); ok {
			queues[queue] = drops
		}
	}
	return queues
}

// parseQueue returns what the card lost at a queue; ok is false for a queue that sends, and where
// the driver does not tell.
func parseQueue(attrs []syscall.NetlinkRouteAttr) (queue uint32, drops queueDrops, ok bool) {
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
			drops.all, ok = n, true
		case qstatsOverruns:
			drops.overruns = n
		}
	}
	drops.all = max(drops.all, drops.overruns)
	return queue, drops, ok && !sends
}
