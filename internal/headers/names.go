package headers

import (
	"fmt"
	"strconv"
)

// ProtocolName returns the name of an IP protocol in lower case, or its number if it has no name.
func ProtocolName(number uint8) string { return protocolNames[number] }

// AppendEtherType appends the name of an EtherType in lower case, or its number in hexadecimal if
// it has no name. 0 is for frames with a length instead of the type.
func AppendEtherType(b []byte, number uint16) []byte {
	if name, ok := etherTypes[int(number)]; ok {
		return append(b, name...)
	}
	b = append(b, "0x"...)
	if number < 0x1000 {
		b = append(b, '0') // a type is at least 0x600
	}
	return strconv.AppendUint(b, uint64(number), 16)
}

// HasEtherTypeName reports whether an EtherType has a name.
func HasEtherTypeName(number uint16) bool {
	_, ok := etherTypes[int(number)]
	return ok
}

// protocolNames has the names of all protocols, so that no string is made per packet.
var protocolNames = func() (names [256]string) {
	for number := range names {
		names[number] = fmt.Sprint(number)
		if name, ok := protocols[number]; ok {
			names[number] = name
		}
	}
	return names
}()

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
	0x8100: "vlan", // after two tags
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
