package sflow

import (
	"context"
	"net"
	"time"

	"github.com/vishvananda/netlink"
)

// poll reads the counters of the interfaces, at once and then at each interval, until ctx is done.
// A new reading replaces one that was not received from out yet.
func poll(ctx context.Context, interval time.Duration, interfaces func() *speeds, out chan []*InterfaceCounters) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		var read []*InterfaceCounters
		for index, speed := range *interfaces() {
			if c := readInterface(index, speed); c != nil {
				read = append(read, c)
			}
		}
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

// speeds are the speeds of interfaces in bit/s, by their indices; 0 = unknown.
type speeds map[int]uint64

// IANA's numbers for the types of interfaces.
const ifTypeEthernet, ifTypeLoopback = 6, 24

// readInterface reads an interface's counters. It returns nil if the interface does not exist, or
// no longer exists. A hook map is not an interface.
func readInterface(index int, speed uint64) *InterfaceCounters {
	link, err := netlink.LinkByIndex(index)
	if err != nil || link.Attrs().Statistics == nil {
		return nil
	}
	a, n := link.Attrs(), link.Attrs().Statistics
	c := &InterfaceCounters{
		Index:   uint32(index),
		Type:    ifTypeEthernet,
		Speed:   speed,
		Up:      a.Flags&net.FlagUp != 0,
		Running: a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown && a.Flags&net.FlagUp != 0,
		In: Traffic{
			Octets: n.RxBytes, Unicast: uint32(n.RxPackets - n.Multicast), Multicast: uint32(n.Multicast),
			Broadcast: unknown, Discarded: uint32(n.RxDropped), Errors: uint32(n.RxErrors),
		},
		Out: Traffic{ // the kernel does not count unicast, multicast and broadcast separately
			Octets: n.TxBytes, Unicast: uint32(n.TxPackets), Multicast: unknown,
			Broadcast: unknown, Discarded: uint32(n.TxDropped), Errors: uint32(n.TxErrors),
		},
		UnknownIn:   unknown,
		Promiscuous: a.Promisc > 0,
	}
	if a.EncapType == "loopback" {
		c.Type = ifTypeLoopback
	}
	return c
}
