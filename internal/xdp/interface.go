// Package xdp looks up network interfaces from the point of view of XDP: their properties, and the
// programs that they run. Package attach attaches our programs, and package support explains why
// the kernel does not allow something.
//
// All functions work in the network namespace of the calling thread and may be called concurrently.
package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
)

// An Interface is a network interface at the moment it was looked up.
type Interface struct {
	Index    int
	Name     string
	Alias    string           // as set with `ip link set alias`, or ""
	Type     string           // link-layer type: "ether", "loopback", "none" (tun), ...
	MAC      net.HardwareAddr // nil if the link layer has none
	MTU      int              // bytes, without the link-layer header
	Up       bool             // administratively up
	State    string           // operational state after RFC 2863: "up", "down", "unknown", ...
	Driver   string           // as `ethtool -i` names it, or ""
	Device   string           // the hardware's name on its bus: 0000:01:00.0; "" = none
	Speed    uint64           // bit/s, 0 = unknown
	RxQueues int              // receive queues that the driver can have, in use or not
	Mode     packet.Mode      // the mode that the attached program runs in
	Programs []Program        // the attached XDP program: one, or none (nil)
}

// A Program is an XDP program that the kernel runs for an interface.
type Program = packet.Program

// Interfaces lists the interfaces of the namespace in the order of their indices.
func Interfaces() ([]Interface, error) {
	return Select(func(int, string) bool { return true })
}

// Select lists the interfaces of the namespace that are wanted, in the order of their indices. It
// queries the drivers of these interfaces only, because that takes long.
func Select(wanted func(index int, name string) bool) (ifis []Interface, err error) {
	links, err := Dump(netlink.LinkList)
	// If interfaces come and go all the time the list may lack some. Callers that follow interfaces
	// call Select again anyway.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, l := range links {
		if a := l.Attrs(); wanted(a.Index, a.Name) {
			ifis = append(ifis, describe(l))
		}
	}
	return ifis, nil
}

// Addresses returns the addresses of all interfaces of the namespace by their indices, those of
// IPv4 before those of IPv6.
func Addresses() (map[int][]netip.Prefix, error) {
	all := make(map[int][]netip.Prefix)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		addrs, err := Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family) })
		if err != nil {
			return nil, fmt.Errorf("list the addresses of the network interfaces: %w", err)
		}
		for _, a := range addrs {
			addr, _ := netip.AddrFromSlice(a.IP)
			bits, _ := a.Mask.Size()
			all[a.LinkIndex] = append(all[a.LinkIndex], netip.PrefixFrom(addr.Unmap(), bits))
		}
	}
	return all, nil
}

// InterfaceByName looks up an interface by its name or an alternative name (`ip link property`).
// The returned Interface has its main name. The error for a name that does not exist lists similar
// names, or the first names. For "any", tcpdump's word for all interfaces, it has the kind
// ErrNotAll.
func InterfaceByName(name string) (Interface, error) {
	l, err := netlink.LinkByName(name)
	if err == nil {
		return describe(l), nil
	}
	var notFound netlink.LinkNotFoundError
	// The kernel returns ERANGE for a name that is too long.
	if !errors.As(err, &notFound) && !errors.Is(err, unix.ERANGE) {
		return Interface{}, fmt.Errorf("look up interface %q: %w", name, err)
	}
	links, err := Dump(netlink.LinkList)
	if err != nil {
		return Interface{}, fmt.Errorf("interface %q does not exist", name)
	}
	var names []string
	for _, l := range links {
		a := l.Attrs()
		if strconv.Itoa(a.Index) == name {
			return Interface{}, fmt.Errorf("interface %q does not exist: did you mean %s, which has this index?", name, a.Name)
		}
		names = append(names, a.Name)
	}
	list := strings.Join(names[:min(len(names), mostNames)], ", ")
	if more := len(names) - mostNames; more > 0 {
		list += fmt.Sprintf(" and %d others", more)
	}
	if name == "any" {
		return Interface{}, message.Errorf(ErrNotAll, "interface any: interfaces must be named here; there are: %s", list)
	}
	if near := message.DidYouMean("", name, names); near != "" {
		return Interface{}, fmt.Errorf("interface %q does not exist%s", name, near)
	}
	return Interface{}, fmt.Errorf("interface %q does not exist; there are: %s", name, list)
}

// mostNames is the maximum number of interfaces in an error.
const mostNames = 8

// EthernetInterface looks up an interface whose packets can be captured: see [Interface.Obstacle].
func EthernetInterface(name string) (Interface, error) {
	ifi, err := InterfaceByName(name)
	if err != nil {
		return Interface{}, err
	}
	switch reason, remedy := ifi.Obstacle(); {
	case remedy != "":
		return Interface{}, fmt.Errorf("%s: %s", reason, remedy)
	case reason != "":
		return Interface{}, fmt.Errorf("%s: packets without an Ethernet header are not understood", reason)
	}
	return ifi, nil
}

// Obstacle returns why packets of the interface cannot be captured, and a command that changes
// that. reason is "" if they can be captured. remedy is "" for another link type: all programs here
// expect packets that begin with an Ethernet header.
func (ifi *Interface) Obstacle() (reason, remedy string) {
	switch {
	case ifi.Type != "ether" && ifi.Type != "loopback":
		return fmt.Sprintf("%s is not an Ethernet interface (its link type is %q)", ifi.Name, ifi.Type), ""
	case !ifi.Up:
		return ifi.Name + " is down", "ip link set dev " + message.ShellWord(ifi.Name) + " up"
	}
	return "", ""
}

// Netmask returns the netmask of the interface's first IPv4 address, 4 bytes; nil if it has none.
func (ifi *Interface) Netmask() (net.IPMask, error) {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ifi.Index}}
	addrs, err := Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(device, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", ifi.Name, err)
	}
	if len(addrs) == 0 {
		return nil, nil
	}
	return addrs[0].Mask, nil
}

func describe(l netlink.Link) Interface {
	a := l.Attrs()
	ifi := Interface{
		Index:    a.Index,
		Name:     a.Name,
		Alias:    a.Alias,
		Type:     a.EncapType,
		MAC:      a.HardwareAddr,
		MTU:      a.MTU,
		Up:       a.Flags&net.FlagUp != 0,
		State:    a.OperState.String(),
		Device:   a.ParentDev,
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
	ifi.Programs = []Program{{ID: a.Xdp.ProgId, Name: ProgramName(a.Xdp.ProgId)}}
	return ifi
}

// ProgramName returns the name of a program: "" if this process has no right to open programs, or
// if the program is gone.
func ProgramName(id uint32) string {
	info, err := programInfo(id)
	if err != nil {
		return ""
	}
	return info.Name
}

// attachedModes are the modes by the kernel's numbers.
var attachedModes = map[uint32]packet.Mode{
	nl.XDP_ATTACHED_DRV: packet.Native,
	nl.XDP_ATTACHED_SKB: packet.Generic,
	nl.XDP_ATTACHED_HW:  packet.Offload,
}
