package dissect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// icmpFormats are formats by type and code. The values that they may show are, in this order: the
// ID; the sequence number, in whose place some errors have the MTU; and of the packet that an error
// is about the destination, the protocol by number, the protocol by name, and the port.
var icmpFormats = map[layers.ICMPv4TypeCode]string{
	0x0000: "echo reply, id %[1]d, seq %[2]d", 0x0800: "echo request, id %[1]d, seq %[2]d",
	0x0300: "net %[3]s unreachable", 0x0301: "host %[3]s unreachable", 0x0302: "%[3]s protocol %[4]d unreachable",
	0x0303: "%[3]s %[5]s port %[6]d unreachable", 0x0304: "%[3]s unreachable - need to frag (mtu %[2]d)",
	0x0305: "%[3]s unreachable - source route failed", 0x0306: "net %[3]s unreachable - unknown",
	0x0307: "host %[3]s unreachable - unknown", 0x0308: "%[3]s unreachable - source host isolated",
	0x0309: "net %[3]s unreachable - admin prohibited", 0x030a: "host %[3]s unreachable - admin prohibited",
	0x030b: "net %[3]s unreachable - tos prohibited", 0x030c: "host %[3]s unreachable - tos prohibited",
	0x030d: "host %[3]s unreachable - admin prohibited filter", 0x030e: "host %[3]s unreachable - host precedence violation",
	0x030f: "host %[3]s unreachable - precedence cutoff",
	0x0b00: "time exceeded in-transit%.0[5]s", 0x0b01: "ip reassembly time exceeded%.0[5]s",
}

func (d *Dissector) icmp(i *layers.ICMPv4) bool {
	var dst netip.Addr
	var proto layers.IPProtocol
	var port uint16
	if i.TypeCode.Type() == layers.ICMPv4TypeDestinationUnreachable {
		ip, ok := gopacket.NewPacket(i.Payload, layers.LayerTypeIPv4, gopacket.Lazy).NetworkLayer().(*layers.IPv4)
		if !ok || ip.DstIP == nil || len(ip.Payload) < 4 {
			return false
		}
		// The port is read here, because an error has only 8 bytes of the transport header, and
		// gopacket decodes no TCP header that is cut.
		dst, proto, port = addr(ip.DstIP), ip.Protocol, binary.BigEndian.Uint16(ip.Payload[2:])
	}
	if format, ok := icmpFormats[i.TypeCode]; ok {
		d.addf("ICMP "+format, i.Id, i.Seq, dst, proto, strings.ToLower(protoName(proto)), port)
	} else {
		d.addf("ICMP type-#%d code-#%d", i.TypeCode.Type(), i.TypeCode.Code())
	}
	d.addf(", length %d", d.length)
	return true
}

var icmp6Names = map[uint8]string{
	1: "destination unreachable", 2: "packet too big", 3: "time exceeded", 4: "parameter problem", 128: "echo request",
	129: "echo reply", 130: "multicast listener query", 131: "multicast listener report", 132: "multicast listener done",
	133: "router solicitation", 134: "router advertisement", 135: "neighbor solicitation", 136: "neighbor advertisement",
	137: "redirect", 143: "multicast listener report v2",
}

func (d *Dissector) icmp6(i *layers.ICMPv6) bool {
	typ, code := i.TypeCode.Type(), i.TypeCode.Code()
	d.add("ICMP6, " + cmp.Or(icmp6Names[typ], fmt.Sprintf("unknown icmp6 type (%d)", typ)))
	switch {
	case i.NextLayerType() != gopacket.LayerTypePayload:
		d.want = "icmp6"
		return true
	case typ != layers.ICMPv6TypePacketTooBig:
		d.addf(", code-#%d", code)
	case len(i.Payload) < 4:
		return false
	default:
		d.addf(", mtu %d", binary.BigEndian.Uint32(i.Payload))
	}
	d.addf(", length %d", d.length)
	return true
}

// icmp6Message appends what gopacket decodes as a layer of its own below ICMPv6. For types that
// have no case here, tcpdump's line has no more than the name, which is there already.
func (d *Dissector) icmp6Message(l gopacket.Layer) bool {
	switch l := l.(type) {
	case *layers.ICMPv6Echo:
		d.addf(", id %d, seq %d", l.Identifier, l.SeqNumber)
	case *layers.ICMPv6NeighborSolicitation:
		d.addf(", who has %s", addr(l.TargetAddress))
	case *layers.ICMPv6NeighborAdvertisement:
		d.addf(", tgt is %s", addr(l.TargetAddress))
	case *layers.MLDv2MulticastListenerReportMessage:
		d.addf(", %d group record(s)", l.NumberOfMulticastAddressRecords)
	case *gopacket.DecodeFailure:
		return false
	}
	d.addf(", length %d", d.length)
	return true
}
