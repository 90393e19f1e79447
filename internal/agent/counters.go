package agent

import (
	"context"
	"net"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/sflow"
)

// polled is one reading of a source's counters.
type polled struct {
	source  sflow.Source
	records []sflow.Counters
}

// length is the largest size of the sample in bytes.
func (p *polled) length() int { return sflow.CountersLength + len(p.records)*sflow.MaxCounters }

// poll reads the counters of the sources' interfaces and of the host, at once and then at each
// interval, until ctx is done. A reading that was not received from out is replaced by the next.
func poll(ctx context.Context, interval time.Duration, sources []capture.Source, out chan []polled) {
	speeds := make(map[int]uint64)
	for _, s := range sources {
		speeds[s.Index] = s.Speed
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	h := newHost()
	for {
		var read []polled
		for index, speed := range speeds {
			if p, ok := readInterface(index, speed); ok {
				read = append(read, p)
			}
		}
		read = append(read, h.read())
		select {
		case <-out:
		default:
		}
		out <- read
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// IANA's numbers for the types of interfaces.
const ifTypeEthernet, ifTypeLoopback = 6, 24

// readInterface reads an interface's counters. It returns false if the interface does not exist, or
// no longer. A hook map is not an interface.
func readInterface(index int, speed uint64) (polled, bool) {
	link, err := netlink.LinkByIndex(index)
	if err != nil || link.Attrs().Statistics == nil {
		return polled{}, false
	}
	a, n := link.Attrs(), link.Attrs().Statistics
	c := &sflow.InterfaceCounters{
		Index:   uint32(index),
		Type:    ifTypeEthernet,
		Speed:   speed,
		Up:      a.Flags&net.FlagUp != 0,
		Running: a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown && a.Flags&net.FlagUp != 0,
		In: sflow.Traffic{
			Octets: n.RxBytes, Unicast: uint32(n.RxPackets - n.Multicast), Multicast: uint32(n.Multicast),
			Broadcast: sflow.Unknown, Discarded: uint32(n.RxDropped), Errors: uint32(n.RxErrors),
		},
		Out: sflow.Traffic{ // the kernel does not count unicast, multicast and broadcast separately
			Octets: n.TxBytes, Unicast: uint32(n.TxPackets), Multicast: sflow.Unknown,
			Broadcast: sflow.Unknown, Discarded: uint32(n.TxDropped), Errors: uint32(n.TxErrors),
		},
		UnknownIn:   sflow.Unknown,
		Promiscuous: a.Promisc > 0,
	}
	if a.EncapType == "loopback" {
		c.Type = ifTypeLoopback
	}
	source := sflow.Source{Type: sflow.SourceInterface, Index: uint32(index)}
	return polled{source, []sflow.Counters{c}}, true
}
