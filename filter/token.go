package filter

// kind is the class of a token.
type kind uint8

const (
	kEnd        kind = iota // end of the expression
	kName                   // a name, or a backslash and any word
	kNumber                 // 32-bit number; also icmptype, tcp-syn and the like
	kIPv4                   // two to four numbers with dots
	kIPv6                   // an IPv6 address
	kEther                  // a MAC address
	kArcnet                 // $xx
	kSymbol                 // one of the operators, num is its character or one of sym*
	kProtocol               // protocol name, num is a proto
	kDir                    // src, dst
	kAddrType               // host, net, port, portrange, gateway, proto
	kProtochain             // protochain
	kMask                   // mask
	kAnd                    // and, &&
	kOr                     // or, ||
	kLen                    // len, length
	kLess                   // less
	kGreater                // greater
	kByte                   // byte
	kBroadcast              // broadcast
	kMulticast              // multicast
	kDirection              // inbound, outbound
	kEncap                  // vlan, mpls, pppoed, pppoes, geneve
	kLLC                    // llc
	kRefused                // known to libpcap, impossible here; see refusals
)

// Operators of two characters; the others are their own character.
const (
	symGE = 0x100 + iota
	symLE
	symNE
	symLSH
	symRSH
)

// token is a word of the expression and where it was found.
type token struct {
	kind kind
	pos  int
	text string
	num  uint32
}

// is tells whether t is the operator c.
func (t token) is(c uint32) bool { return t.kind == kSymbol && t.num == c }

// proto is a protocol qualifier. The zero value is "none given".
type proto uint32

const (
	protoNone proto = iota
	protoLink
	protoIP
	protoARP
	protoRARP
	protoSCTP
	protoTCP
	protoUDP
	protoICMP
	protoIGMP
	protoIGRP
	protoPIM
	protoVRRP
	protoCARP
	protoATALK
	protoAARP
	protoDECNET
	protoLAT
	protoSCA
	protoMOPRC
	protoMOPDL
	protoIP6
	protoICMP6
	protoAH
	protoESP
	protoISO
	protoESIS
	protoISIS
	protoCLNP
	protoSTP
	protoIPX
	protoNETBEUI
	protoL1
	protoL2
	protoIIH
	protoLSP
	protoSNP
	protoCSNP
	protoPSNP
)

// direction is a src/dst qualifier.
type direction uint32

const (
	dirNone direction = iota
	dirSrc
	dirDst
	dirOr
	dirAnd
)

// addrType says what an identifier names.
type addrType uint32

const (
	addrNone addrType = iota
	addrHost
	addrNet
	addrPort
	addrPortrange
	addrGateway
	addrProto
	addrUndefined // no qualifier to inherit
)

// encap is a header that moves everything behind it.
type encap uint32

const (
	encapVLAN encap = iota
	encapMPLS
	encapPPPoED
	encapPPPoES
	encapGeneve
)

type keyword struct {
	kind kind
	num  uint32
}

var keywords = map[string]keyword{
	"src": {kDir, uint32(dirSrc)}, "dst": {kDir, uint32(dirDst)},
	"host": {kAddrType, uint32(addrHost)}, "net": {kAddrType, uint32(addrNet)},
	"port": {kAddrType, uint32(addrPort)}, "portrange": {kAddrType, uint32(addrPortrange)},
	"gateway": {kAddrType, uint32(addrGateway)}, "proto": {kAddrType, uint32(addrProto)},
	"protochain": {kind: kProtochain}, "mask": {kind: kMask},
	"and": {kind: kAnd}, "or": {kind: kOr}, "not": {kSymbol, '!'},
	"len": {kind: kLen}, "length": {kind: kLen},
	"less": {kind: kLess}, "greater": {kind: kGreater}, "byte": {kind: kByte},
	"broadcast": {kind: kBroadcast}, "multicast": {kind: kMulticast},
	"inbound": {kDirection, 0}, "outbound": {kDirection, 1},
	"vlan": {kEncap, uint32(encapVLAN)}, "mpls": {kEncap, uint32(encapMPLS)},
	"pppoed": {kEncap, uint32(encapPPPoED)}, "pppoes": {kEncap, uint32(encapPPPoES)},
	"geneve": {kEncap, uint32(encapGeneve)}, "llc": {kind: kLLC},
}

// protocols are the words that can stand alone, qualify, or be indexed. All names of link layers mean "the link layer".
var protocols = map[string]proto{
	"link": protoLink, "ether": protoLink, "ppp": protoLink, "slip": protoLink, "fddi": protoLink, "tr": protoLink,
	"wlan": protoLink, "arp": protoARP, "rarp": protoRARP, "ip": protoIP, "sctp": protoSCTP, "tcp": protoTCP,
	"udp": protoUDP, "icmp": protoICMP, "igmp": protoIGMP, "igrp": protoIGRP, "pim": protoPIM, "vrrp": protoVRRP,
	"carp": protoCARP, "ip6": protoIP6, "icmp6": protoICMP6, "ah": protoAH, "esp": protoESP, "atalk": protoATALK,
	"aarp": protoAARP, "decnet": protoDECNET, "lat": protoLAT, "sca": protoSCA, "moprc": protoMOPRC, "mopdl": protoMOPDL,
	"iso": protoISO, "esis": protoESIS, "es-is": protoESIS, "isis": protoISIS, "is-is": protoISIS, "l1": protoL1,
	"l2": protoL2, "iih": protoIIH, "lsp": protoLSP, "snp": protoSNP, "csnp": protoCSNP, "psnp": protoPSNP,
	"clnp": protoCLNP, "stp": protoSTP, "ipx": protoIPX, "netbeui": protoNETBEUI,
}

// constants are names of offsets, message types and flags. They are numbers wherever a number can stand.
var constants = map[string]uint32{
	"icmptype": 0, "icmpcode": 1, "icmp6type": 0, "icmp6code": 1, "tcpflags": 13,
	"tcp-fin": 0x01, "tcp-syn": 0x02, "tcp-rst": 0x04, "tcp-push": 0x08,
	"tcp-ack": 0x10, "tcp-urg": 0x20, "tcp-ece": 0x40, "tcp-cwr": 0x80,
	"icmp-echoreply": 0, "icmp-unreach": 3, "icmp-sourcequench": 4, "icmp-redirect": 5, "icmp-echo": 8,
	"icmp-routeradvert": 9, "icmp-routersolicit": 10, "icmp-timxceed": 11, "icmp-paramprob": 12, "icmp-tstamp": 13,
	"icmp-tstampreply": 14, "icmp-ireq": 15, "icmp-ireqreply": 16, "icmp-maskreq": 17, "icmp-maskreply": 18,
	"icmp6-destinationunreach": 1, "icmp6-packettoobig": 2, "icmp6-timeexceeded": 3, "icmp6-parameterproblem": 4,
	"icmp6-echo": 128, "icmp6-echoreply": 129, "icmp6-multicastlistenerquery": 130,
	"icmp6-multicastlistenerreportv1": 131, "icmp6-multicastlistenerdone": 132, "icmp6-routersolicit": 133,
	"icmp6-routeradvert": 134, "icmp6-neighborsolicit": 135, "icmp6-neighboradvert": 136, "icmp6-redirect": 137,
	"icmp6-routerrenum": 138, "icmp6-nodeinformationquery": 139, "icmp6-nodeinformationresponse": 140,
	"icmp6-ineighbordiscoverysolicit": 141, "icmp6-ineighbordiscoveryadvert": 142,
	"icmp6-multicastlistenerreportv2": 143, "icmp6-homeagentdiscoveryrequest": 144, "icmp6-homeagentdiscoveryreply": 145,
	"icmp6-mobileprefixsolicit": 146, "icmp6-mobileprefixadvert": 147, "icmp6-certpathsolicit": 148,
	"icmp6-certpathadvert": 149, "icmp6-multicastrouteradvert": 151, "icmp6-multicastroutersolicit": 152,
	"icmp6-multicastrouterterm": 153,
}

// refusals are words of pcap-filter that mean nothing on Ethernet at XDP, with the reason.
var refusals = func() map[string]string {
	m := map[string]string{"ifindex": "the interface is chosen with -i, not in the filter", "radio": "radio headers exist on 802.11 only"}
	for reason, words := range map[string][]string{
		"802.11 frames do not exist on Ethernet": {"type", "subtype", "direction", "dir", "address1", "addr1", "address2",
			"addr2", "address3", "addr3", "address4", "addr4", "ra", "ta"},
		"ATM does not exist on Ethernet": {"lane", "metac", "bcc", "oam", "oamf4", "oamf4ec", "oamf4sc", "sc", "ilmic", "vpi",
			"vci", "connectmsg", "metaconnect"},
		"only OpenBSD's packet filter log has it": {"on", "ifname", "rset", "ruleset", "rnr", "rulenum", "srnr", "subrulenum",
			"reason", "action"},
		"SS7 signalling does not exist on Ethernet": {"fisu", "lssu", "lsu", "msu", "hfisu", "hlssu", "hmsu", "sio", "opc",
			"dpc", "sls", "hsio", "hopc", "hdpc", "hsls"},
	} {
		for _, w := range words {
			m[w] = reason
		}
	}
	return m
}()
