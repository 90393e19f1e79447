// Package xdp knows network interfaces as XDP sees them: what they are, what is attached to them,
// and how a program of ours gets onto one without disturbing another.
//
// All functions work in the network namespace of the calling thread and may be called concurrently.
package xdp

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// An Interface is a network interface at the moment it was looked up.
type Interface struct {
	Index    int
	Name     string
	Alias    string           // what the administrator wrote with `ip link set alias`, or ""
	Type     string           // the kernel's link-layer type: "ether", "loopback", "none" (tun), ...
	MAC      net.HardwareAddr // nil where the link layer has none
	MTU      int              // bytes, without the link-layer header
	Up       bool             // administratively up
	State    string           // operational state after RFC 2863: "up", "down", "unknown", ...
	Driver   string           // as `ethtool -i` names it, or ""
	Speed    uint64           // bit/s, 0 = unknown
	RxQueues int              // receive queues that the driver can have; how many are in use is fewer or as many
	Mode     Mode             // how Program is attached
	Programs []Program        // the attached XDP program: none or one
}

// A Program is an XDP program that the kernel runs for an interface.
type Program struct {
	ID   uint32
	Name string // from BTF where the program has it, else the kernel's, cut after 15 characters
}

func (p Program) String() string { return fmt.Sprintf("%s (id %d)", p.Name, p.ID) }

// Interfaces lists the interfaces of the namespace in the order of their indices.
func Interfaces() ([]Interface, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	ifis := make([]Interface, len(links))
	for i, l := range links {
		ifis[i] = describe(l)
	}
	return ifis, nil
}

// InterfaceByName looks one interface up. The error for a name that does not exist lists those
// that do.
func InterfaceByName(name string) (Interface, error) {
	l, err := netlink.LinkByName(name)
	if err == nil && l.Attrs().Name == name { // the look-up also follows alternative names
		return describe(l), nil
	}
	if err == nil {
		return Interface{}, fmt.Errorf("interface %q is another name of %s: use that", name, l.Attrs().Name)
	}
	var notFound netlink.LinkNotFoundError
	if !errors.As(err, &notFound) {
		return Interface{}, fmt.Errorf("look up interface %q: %w", name, err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return Interface{}, fmt.Errorf("interface %q does not exist", name)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return Interface{}, fmt.Errorf("interface %q does not exist; there are: %s", name, strings.Join(names, ", "))
}

// HasAddress tells whether this machine talks through the interface: whether it has an IP address
// other than the link-local one that IPv6 gives every interface.
func (ifi *Interface) HasAddress() (bool, error) {
	addrs, err := ifi.addresses(netlink.FAMILY_ALL)
	for _, a := range addrs {
		if a.IP.To4() != nil || !a.IP.IsLinkLocalUnicast() {
			return true, err
		}
	}
	return false, err
}

// Netmask is that of the interface's first IPv4 address, 4 bytes, or nil where it has none.
func (ifi *Interface) Netmask() (net.IPMask, error) {
	addrs, err := ifi.addresses(netlink.FAMILY_V4)
	if err != nil || len(addrs) == 0 {
		return nil, err
	}
	return addrs[0].Mask, nil
}

func (ifi *Interface) addresses(family int) ([]netlink.Addr, error) {
	addrs, err := netlink.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ifi.Index}}, family)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", ifi.Name, err)
	}
	return addrs, nil
}

func describe(l netlink.Link) Interface {
	a := l.Attrs()
	ifi := Interface{
		Index: a.Index,
		Name:  a.Name,
		Alias: a.Alias,
		Type:  a.EncapType,
		MAC:   a.HardwareAddr,
		MTU:   a.MTU,
		Up:    a.Flags&net.FlagUp != 0,
		State: a.OperState.String(),

		RxQueues: max(a.NumRxQueues, 1),
	}
	if e, err := openEthtool(a.Name); err == nil {
		ifi.Driver, ifi.Speed = e.driver(), e.speed()
		e.close()
	}
	if a.Xdp == nil || !a.Xdp.Attached {
		return ifi
	}
	ifi.Mode = attachedModes[a.Xdp.AttachMode]
	ifi.Programs = []Program{{ID: a.Xdp.ProgId, Name: programName(a.Xdp.ProgId)}}
	return ifi
}

var attachedModes = map[uint32]Mode{
	nl.XDP_ATTACHED_DRV: Native,
	nl.XDP_ATTACHED_SKB: Generic,
	nl.XDP_ATTACHED_HW:  Offload,
}

// programName is empty where we may not ask, or where the program has gone meanwhile.
func programName(id uint32) string {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}

// HasDefaultRoute tells whether this machine reaches the rest of the world through the interface.
func (ifi *Interface) HasDefaultRoute() (bool, error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		// No Dst is the default route, no Table is all of them.
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
		if err != nil {
			return false, fmt.Errorf("list the default routes: %w", err)
		}
		for _, r := range routes {
			if r.LinkIndex == ifi.Index {
				return true, nil
			}
			for _, hop := range r.MultiPath {
				if hop.LinkIndex == ifi.Index {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
