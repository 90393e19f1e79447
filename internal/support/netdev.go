package support

import (
	"encoding/binary"
	"syscall"

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

// netdevFeatures are the bits that a driver reports. nil = the kernel is too old to report them.
type netdevFeatures struct {
	xdp      *uint64
	metadata *uint64
}

// readFeatures reads the features of an interface's driver from the kernel.
func readFeatures(ifindex int) (f netdevFeatures) {
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
// of netlink(7). It returns the attributes of each answer. If the kernel refuses, the error is a
// unix.Errno: ENOENT without the family (before 6.3), EOPNOTSUPP without the command.
func AskNetdev(command byte, flags int, with ...*nl.RtAttr) (answers [][]syscall.NetlinkRouteAttr, err error) {
	found, err := askFamily(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, 0, nl.NewRtAttr(unix.CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated("netdev")))
	if err != nil {
		return nil, err
	}
	for _, attrs := range found {
		for _, a := range attrs {
			if a.Attr.Type == unix.CTRL_ATTR_FAMILY_ID && len(a.Value) == 2 {
				id := int(binary.NativeEndian.Uint16(a.Value))
				return askFamily(id, command, flags, with...)
			}
		}
	}
	return nil, unix.ENOENT
}

// askFamily sends a command of a family of generic netlink.
func askFamily(id int, command byte, flags int, attrs ...*nl.RtAttr) (answers [][]syscall.NetlinkRouteAttr, err error) {
	req := nl.NewNetlinkRequest(id, flags)
	// The header is a struct genlmsghdr. nl.Genlmsg cannot be used, nor netlink.GenlFamilyGet,
	// which does: it is two bytes too short, so the reserved field would be sent from the memory
	// after it, and some families refuse any value but zero there.
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

// Metadata returns the names of the metadata that the interface's driver gives to XDP programs
// bound to it; nil = unknown. Linux reports them since 6.7.
func Metadata(ifindex int) []string { return readFeatures(ifindex).kfuncs() }

// kfuncs returns the names of the metadata that XDP programs can get from the driver with kernel
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
