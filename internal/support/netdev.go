package support

import (
	"encoding/binary"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The netlink family "netdev", include/uapi/linux/netdev.h.
const (
	netdevCmdDevGet         = 1
	netdevAttrIfindex       = 1
	netdevAttrXDPFeatures   = 3 // since 6.3
	netdevAttrXDPRxMetadata = 5 // since 6.7
	netdevXDPActBasic       = 1 << 0
	netdevXDPActRxSG        = 1 << 5
)

// The metadata that a driver may give to XDP programs of its devices. Linux 6.3 introduced the
// first two, 6.8 the VLAN tag.
const (
	MetadataTimestamp = "timestamp"
	MetadataHash      = "hash"
	MetadataVLAN      = "vlan_tag"
)

// metadataNames are the names of the bits of netdevAttrXDPRxMetadata.
var metadataNames = []string{MetadataTimestamp, MetadataHash, MetadataVLAN}

// netdevFeatures are the bits that a driver reports. nil = the kernel is too old to tell.
type netdevFeatures struct {
	xdp      *uint64
	metadata *uint64
}

// askNetdev asks the kernel for the features of an interface's driver.
func askNetdev(ifindex int) (f netdevFeatures) {
	answers, err := AskNetdev(netdevCmdDevGet, 0, nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(ifindex))))
	if err != nil {
		return f
	}
	for _, attrs := range answers {
		for _, a := range attrs {
			if len(a.Value) < 8 {
				continue
			}
			value := binary.NativeEndian.Uint64(a.Value)
			switch a.Attr.Type {
			case netdevAttrXDPFeatures:
				f.xdp = &value
			case netdevAttrXDPRxMetadata:
				f.metadata = &value
			}
		}
	}
	return f
}

// AskNetdev sends a command of the netlink family "netdev", include/uapi/linux/netdev.h, with flags
// of netlink(7). It returns the attributes of each answer. The error is a unix.Errno where the
// kernel refuses: ENOENT without the family (before 6.3), EOPNOTSUPP without the command.
func AskNetdev(command byte, flags int, attrs ...*nl.RtAttr) (answers [][]syscall.NetlinkRouteAttr, err error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return nil, err
	}
	req := nl.NewNetlinkRequest(int(family.ID), flags)
	// The header is a struct genlmsghdr. nl.Genlmsg cannot be used: it is two bytes too short, so
	// that the reserved field would be sent from the memory after it, and this family refuses
	// anything but zeros there.
	data := []byte{command, 1, 0, 0}
	for _, a := range attrs {
		data = append(data, a.Serialize()...)
	}
	req.AddRawData(data)
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return nil, err
		}
		answers = append(answers, attrs)
	}
	return answers, nil
}

// Metadata are the names of the metadata that the interface's driver gives to XDP programs bound to
// it; nil = not known. Only Linux 6.7 and later tell.
func Metadata(ifindex int) []string { return askNetdev(ifindex).kfuncs() }

// kfuncs are the names of the metadata that XDP programs can get from the driver with kernel
// functions (kfuncs).
func (f netdevFeatures) kfuncs() []string {
	if f.metadata == nil {
		return nil
	}
	names := []string{}
	for bit, name := range metadataNames {
		if *f.metadata&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}
