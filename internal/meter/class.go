package meter

import "fmt"

// A Class is a kind of packets: the upper-layer protocol of IPv4, or of IPv6 behind its extension
// headers; the EtherType of all other packets; or that the packet was too short to tell.
type Class uint32

// Truncated is the class of packets that end before their protocol is known.
const Truncated = Class(protocolsClassTRUNCATED)

// noRoom is the class of packets whose EtherType had no room in the table of EtherTypes.
const noRoom = Class(protocolsClassNO_ROOM)

// IPv4 is the class of an IPv4 packet of this protocol.
func IPv4(protocol uint8) Class { return Class(protocolsClassV4) + Class(protocol) }

// IPv6 is the class of an IPv6 packet of this upper-layer protocol.
func IPv6(protocol uint8) Class { return Class(protocolsClassV6) + Class(protocol) }

// EtherType is the class of packets that are not IP. EtherType(0) is those that have a length in
// place of the type.
func EtherType(t uint16) Class { return Class(protocolsClassOTHER) + Class(t) }

// Family is "ipv4", "ipv6" or "other".
func (c Class) Family() string {
	switch {
	case c < Class(protocolsClassV6):
		return "ipv4"
	case c < Truncated:
		return "ipv6"
	}
	return "other"
}

// Number is the IP protocol's number or the EtherType, 0 where there is neither.
func (c Class) Number() int {
	switch {
	case c < Truncated:
		return int(c & 0xff)
	case c >= EtherType(0):
		return int(c - EtherType(0))
	}
	return 0
}

// Protocol is a name in lower-case letters. Where there is none, it is the number: of an IP
// protocol in decimal, of an EtherType in hexadecimal.
func (c Class) Protocol() string {
	switch {
	case c == Truncated:
		return "truncated"
	case c == noRoom:
		return "ethertypes"
	case c >= EtherType(0):
		if name, ok := etherTypes[c.Number()]; ok {
			return name
		}
		return fmt.Sprintf("0x%04x", c.Number())
	}
	if name, ok := protocols[c.Number()]; ok {
		return name
	}
	return fmt.Sprint(c.Number())
}

func (c Class) String() string { return c.Family() + " " + c.Protocol() }

// protocols are the names of the common protocols in IANA's register of protocol numbers.
var protocols = map[int]string{
	0:   "hopopt",
	1:   "icmp",
	2:   "igmp",
	4:   "ipip",
	6:   "tcp",
	8:   "egp",
	9:   "igp",
	17:  "udp",
	27:  "rdp",
	33:  "dccp",
	41:  "ipv6",
	43:  "ipv6-route",
	44:  "ipv6-frag",
	46:  "rsvp",
	47:  "gre",
	50:  "esp",
	51:  "ah",
	58:  "icmpv6",
	59:  "ipv6-nonxt",
	60:  "ipv6-opts",
	88:  "eigrp",
	89:  "ospf",
	94:  "ipip-old",
	97:  "etherip",
	98:  "encap",
	103: "pim",
	108: "ipcomp",
	112: "vrrp",
	115: "l2tp",
	124: "isis",
	132: "sctp",
	133: "fc",
	135: "mobility",
	136: "udplite",
	137: "mpls",
	138: "manet",
	139: "hip",
	140: "shim6",
	143: "ethernet",
	255: "reserved",
}

// etherTypes are the names of the common types in IEEE's register.
var etherTypes = map[int]string{
	0x0000: "802.3",
	0x0806: "arp",
	0x0842: "wol",
	0x22f3: "trill",
	0x6558: "teb",
	0x8035: "rarp",
	0x8100: "vlan", // behind two tags
	0x8137: "ipx",
	0x8809: "lacp",
	0x8847: "mpls",
	0x8848: "mpls-multicast",
	0x8863: "pppoe-discovery",
	0x8864: "pppoe",
	0x888e: "eapol",
	0x8892: "profinet",
	0x88a2: "aoe",
	0x88a4: "ethercat",
	0x88a8: "qinq",
	0x88cc: "lldp",
	0x88e5: "macsec",
	0x88e7: "pbb",
	0x88f7: "ptp",
	0x8902: "cfm",
	0x8906: "fcoe",
	0x8914: "fip",
	0x8915: "roce",
	0x9000: "loopback",
	0x9100: "qinq-old",
}
