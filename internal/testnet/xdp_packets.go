package testnet

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// XDPPackets is how many packets Rx's XDP hook has seen in native mode since the pair was made: the
// driver counts them, with any program attached. While a program is being attached or detached the
// count may be off by a packet or two, so send no packets then.
func (p *Pair) XDPPackets() (packets uint64, err error) {
	err = p.Rx.Do(func() error {
		link, err := netlink.LinkByIndex(p.RxIndex) // a test may have renamed it
		if err != nil {
			return err
		}
		counters, err := xdp.DriverCounters(link.Attrs().Name)
		for name, value := range counters {
			if strings.HasSuffix(name, "_xdp_packets") && strings.HasPrefix(name, "rx_queue_") {
				packets += value
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the driver's counters of %s: %w", p.RxName, err)
	}
	return packets, nil
}
