package dissect

// EtherTypes that are decoded, with tags and the payload of tunnels.
const (
	etherIPv4      = 0x0800
	etherARP       = 0x0806
	etherBridged   = 0x6558 // an Ethernet frame
	etherReverse   = 0x8035 // reverse ARP
	etherVLAN      = 0x8100
	etherIPv6      = 0x86dd
	etherSlow      = 0x8809
	etherPPP       = 0x880b
	etherMPLS      = 0x8847
	etherMPLSGroup = 0x8848 // multicast
	etherDiscovery = 0x8863 // PPPoE
	etherSession   = 0x8864 // PPPoE
	etherERSPAN    = 0x88be
	etherLLDP      = 0x88cc
	etherLoopback  = 0x9000
)

// etherNames are tcpdump's names of EtherTypes.
var etherNames = map[uint16]string{
	0x0800: "IPv4", 0x8847: "MPLS unicast", 0x8848: "MPLS multicast", 0x86dd: "IPv6", 0x8100: "802.1Q",
	0x9100: "802.1Q-9100", 0x88a8: "802.1Q-QinQ", 0x9200: "802.1Q-9200", 0x88e5: "802.1AE MACsec", 0x0200: "PUP",
	0x0806: "ARP", 0x8035: "Reverse ARP", 0x0600: "NS", 0x0500: "Sprite", 0x1000: "Trail", 0x6001: "MOP DL",
	0x6002: "MOP RC", 0x6003: "DN", 0x6004: "LAT", 0x6007: "SCA", 0x6558: "TEB", 0x8038: "Lanbridge", 0x803c: "DEC DNS",
	0x803e: "DEC DTS", 0x805b: "VEXP", 0x805c: "VPROD", 0x809b: "Appletalk", 0x80f3: "Appletalk ARP", 0x8137: "IPX",
	0x880b: "PPP", 0x8808: "MPCP", 0x8809: "Slow Protocols", 0x8863: "PPPoE D", 0x8864: "PPPoE S", 0x888e: "EAPOL",
	0x8899: "Realtek protocols", 0x886f: "MS NLB heartbeat", 0x8870: "Jumbo", 0x894f: "NSH", 0x9000: "Loopback",
	0xfefe: "OSI", 0x00fe: "GRE-OSI", 0xabcd: "CFM (old)", 0x8902: "CFM", 0x893a: "IEEE1905.1", 0x88cc: "LLDP",
	0x88ca: "TIPC", 0x0707: "GeoNet (old)", 0x8947: "GeoNet", 0x1111: "CALM FAST", 0x88a2: "AoE", 0x88f7: "PTP",
	0xd28b: "Arista Vendor Specific Protocol",
}

// undecoded are the EtherTypes that tcpdump decodes and dissect does not. For an EtherType that it
// does not decode, tcpdump prints the bytes of the frame, and so does dissect; for these neither
// does.
var undecoded = map[uint16]bool{
	0x0707: true, 0x1111: true, 0x6003: true, 0x809b: true, 0x80f3: true, 0x8137: true, 0x8808: true, 0x880b: true,
	0x886f: true, 0x8870: true, 0x888e: true, 0x8899: true, 0x88a2: true, 0x88ca: true, 0x88e5: true, 0x88f7: true,
	0x8902: true, 0x8947: true, 0x894f: true, 0xabcd: true, 0xd28b: true, 0xfefe: true,
}

// ouiNames are tcpdump's names of organisations, by the first three bytes of their MAC addresses.
var ouiNames = map[uint32]string{
	0x000000: "Ethernet", 0x00000c: "Cisco", 0x00005e: "IANA", 0x000081: "Nortel Networks SONMP", 0x0000f8: "Cisco bridged",
	0x0080c2: "Ethernet bridged", 0x00a03e: "ATM Forum", 0x00e02f: "DOCSIS Spanning Tree", 0x080007: "Appletalk",
	0x009069: "Juniper", 0x080009: "Hewlett-Packard", 0x00120f: "IEEE 802.3 Private", 0x0012bb: "ANSI/TIA",
	0x001b21: "DCBX", 0x002320: "Nicira Networks", 0x5c16c7: "Big Switch Networks", 0xb0d2f5: "Vello Systems",
	0x002481: "HP", 0x0004ea: "HP-Labs", 0x748771: "Infoblox Inc", 0xa42305: "Open Networking Lab", 0x00049f: "Freescale",
	0x0015ad: "Netronome", 0x001018: "Broadcom", 0x00e004: "PMC-Sierra", 0xd0f0db: "Ericsson",
}
