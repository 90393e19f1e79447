package xdp

import (
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/message"
)

// Use returns why this machine needs the packets of the interface. reason is empty if dropping them
// does no harm. remedy is a setting with which the machine does not need them; it may be empty.
// Devices above the interface need its packets, too: see above.
func (ifi *Interface) Use() (reason, remedy string, err error) {
	all, err := devices()
	if err != nil {
		return "", "", err
	}
	devices := append([]device{{index: ifi.Index, name: ifi.Name}}, ifi.above(all)...)
	routes, err := defaultRoutes()
	if err != nil {
		return "", "", err
	}
	addresses, err := Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return "", "", fmt.Errorf("list the addresses of all interfaces: %w", err)
	}
	// Only the first reason is returned, so the most serious ones come first.
	for _, d := range devices {
		if !d.elsewhere && routes[d.index] {
			return "the default route is over " + d.in(ifi), "", nil
		}
	}
	for _, d := range devices {
		if ip := d.address(addresses, false); ip != nil {
			return fmt.Sprintf("%s has the IP address %v", d.in(ifi), ip), "", nil
		}
	}
	for _, d := range devices {
		switch {
		case d.elsewhere:
			return d.in(ifi) + ", in another network namespace, gets packets from it", "", nil
		case d.link != 0:
			return d.in(ifi) + " gets packets from it", "", nil
		case d.kind == "openvswitch": // its addresses belong to devices that are not above it
			return fmt.Sprintf("Open vSwitch, %s, gets packets from it", d.in(ifi)), "", nil
		}
	}
	for _, d := range devices {
		if ip := d.address(addresses, true); ip != nil {
			return fmt.Sprintf("%s has the link-local address %v", d.in(ifi), ip),
				"an interface that receives only copies needs no IPv6: sysctl " +
					message.ShellWord("net.ipv6.conf."+strings.ReplaceAll(d.name, ".", "/")+".disable_ipv6=1"), nil
		}
	}
	return "", "", nil
}

// in names a device in a message about the interface: either the interface itself, or one above it.
func (d *device) in(ifi *Interface) string {
	if d.kind == "" {
		return d.name
	}
	return fmt.Sprintf("%s (%s) above %s", d.name, d.kind, ifi.Name)
}

// address returns the first address of the device: the first link-local IPv6 address if linkLocal
// is set, otherwise the first other address.
func (d *device) address(all []netlink.Addr, linkLocal bool) net.IP {
	for _, a := range all {
		if !d.elsewhere && a.LinkIndex == d.index && linkLocal == (a.IP.To4() == nil && a.IP.IsLinkLocalUnicast()) {
			return a.IP
		}
	}
	return nil
}

// defaultRoutes returns the indices of the interfaces that have a default route.
func defaultRoutes() (map[int]bool, error) {
	over := make(map[int]bool)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		// The filter has no Dst, which means the default route, and no Table, which means all
		// tables.
		routes, err := Dump(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list the default routes: %w", err)
		}
		for _, r := range routes {
			over[r.LinkIndex] = true
			for _, hop := range r.MultiPath {
				over[hop.LinkIndex] = true
			}
		}
	}
	return over, nil
}
