package xdp

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A device is an interface, with its position above others.
type device struct {
	index     int
	name      string
	kind      string // "bridge", "vlan", ...; "" for a network card
	master    int    // the index of the bridge, bond, team or VRF that it belongs to, or 0
	link      int    // the index of the device in our namespace that it is on, as a VLAN is, or 0
	elsewhere bool   // it is in another network namespace
}

// above returns the devices that get packets from the interface: its master, devices on top of it,
// and devices above those. all are the devices to search.
func (ifi *Interface) above(all []device) (above []device) {
	seen := map[int]bool{ifi.Index: true}
	for below := []int{ifi.Index}; len(below) > 0; below = below[1:] {
		master := 0
		for _, d := range all {
			if d.index == below[0] && !d.elsewhere {
				master = d.master
			}
		}
		for _, d := range all {
			switch {
			case d.link != below[0] && (d.index != master || d.elsewhere):
				continue
			case d.elsewhere:
				above = append(above, d)
			case !seen[d.index]:
				seen[d.index] = true
				above = append(above, d)
				below = append(below, d.index)
			}
		}
	}
	return above
}

// Above returns the indices of the interfaces of this namespace that get packets from this one: its
// bridge or bond, interfaces on top of it, such as VLANs, and interfaces above these.
func (ifi *Interface) Above() (indices []int, err error) {
	all, err := devicesHere()
	for _, d := range ifi.above(all) {
		indices = append(indices, d.index)
	}
	return indices, err
}

// Obstructed returns an interface above this one that runs an XDP program for which isOwn returns
// false; ok is false if there is none.
func (ifi *Interface) Obstructed(isOwn func(Program) bool) (upper Interface, ok bool, err error) {
	above, err := ifi.Above()
	if err != nil || len(above) == 0 {
		return upper, false, err
	}
	uppers, err := Select(func(index int, _ string) bool { return slices.Contains(above, index) })
	if err != nil {
		return upper, false, err
	}
	i := slices.IndexFunc(uppers, func(u Interface) bool { return len(u.Programs) > 0 && !isOwn(u.Programs[0]) })
	if i < 0 {
		return upper, false, nil
	}
	return uppers[i], true, nil
}

// Heights returns the length of the longest chain of interfaces below each interface of this
// namespace, by its index: 1 for a VLAN on a card. The kernel attaches no program below an
// interface that runs one, so a caller that attaches to several interfaces begins with the lowest.
func Heights() (map[int]int, error) {
	all, err := devicesHere()
	if err != nil {
		return nil, err
	}
	heights := make(map[int]int)
	// The first pass computes the heights up to 1, the second one those up to 2, and so on.
	for changed, passes := true, 0; changed && passes < maxHeight; passes++ {
		changed = false
		raise := func(upper, lower int) {
			if h := heights[lower] + 1; heights[upper] < h {
				heights[upper], changed = h, true
			}
		}
		for _, d := range all {
			if d.master != 0 {
				raise(d.master, d.index)
			}
			if d.link != 0 {
				raise(d.index, d.link)
			}
		}
	}
	return heights, nil
}

// maxHeight is the kernel's limit for devices above each other, MAX_NEST_DEV of
// include/linux/netdevice.h.
const maxHeight = 8

// devicesHere lists the devices of this namespace.
func devicesHere() (all []device, err error) {
	links, err := Dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, l := range links {
		d := newDevice(l)
		// A link with a namespace number is a device of another namespace.
		if l.Attrs().NetNsID != unnumbered {
			d.link = 0
		}
		all = append(all, d)
	}
	return all, nil
}

// devices lists the devices of this namespace, and devices of other namespaces on top of these. It
// searches the namespaces to which the kernel has given a number here: namespaces to which an
// interface of this one was moved, or with the other end of a veth pair.
func devices() ([]device, error) {
	all, err := devicesHere()
	if err != nil {
		return nil, err
	}
	numbers, err := namespaceNumbers()
	if err != nil {
		return nil, fmt.Errorf("list the network namespaces: %w", err)
	}
	for _, number := range numbers {
		others, err := devicesIn(number)
		if err != nil {
			return nil, fmt.Errorf("list the network interfaces of namespace %d: %w", number, err)
		}
		all = append(all, others...)
	}
	return all, nil
}

func newDevice(l netlink.Link) device {
	a := l.Attrs()
	d := device{index: a.Index, name: a.Name, kind: l.Type(), master: a.MasterIndex, link: a.ParentIndex}
	if d.kind == "device" { // the library's name for a device without a kind
		d.kind = ""
	}
	// The link of these kinds is the other end of the pair, which is not below the device.
	if d.kind == "veth" || d.kind == "netkit" || d.kind == "vxcan" {
		d.link = 0
	}
	return d
}

// unnumbered is the number of a network namespace to which the kernel has given none.
const unnumbered = -1

// namespaceNumbers lists the numbers that network namespaces have in this namespace.
func namespaceNumbers() (numbers []int, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETNSID, unix.NLM_F_DUMP)
	head := nl.NewRtGenMsg()
	req.AddData(head)
	answers, err := Dump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID) })
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		attrs, err := nl.ParseRouteAttr(answer[head.Len():])
		if err != nil {
			return nil, err
		}
		for _, a := range attrs {
			if a.Attr.Type == netlink.NETNSA_NSID {
				numbers = append(numbers, int(int32(nl.NativeEndian().Uint32(a.Value))))
			}
		}
	}
	return numbers, nil
}

// devicesIn lists the devices of the namespace with this number that are on one of ours.
func devicesIn(number int) (found []device, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(number))))
	answers, err := Dump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) {
		return nil, nil // the namespace is gone meanwhile, or not accessible
	}
	if err != nil {
		return nil, err
	}
	own, err := ownNumber()
	if err != nil || own == unnumbered || own == number {
		return nil, err // an unnumbered namespace is the link of no device
	}
	for _, answer := range answers {
		l, err := netlink.LinkDeserialize(nil, answer)
		if err != nil {
			return nil, err
		}
		d := newDevice(l)
		if d.link != 0 && l.Attrs().NetNsID == own {
			d.elsewhere = true
			found = append(found, d)
		}
	}
	return found, nil
}

// ownNumber returns the number of this namespace in itself. The kernel assigns it with its first
// answer that refers to the namespace.
func ownNumber() (int, error) {
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return unnumbered, err
	}
	defer file.Close()
	return netlink.GetNetNsIdByFd(int(file.Fd()))
}
