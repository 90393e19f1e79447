package syntax

// keyword is the token that a word becomes.
type keyword struct {
	kind Kind
	num  uint32
}

// keywords are the words that are neither protocols nor numbers.
var keywords = map[string]keyword{
	"src": {KindDir, uint32(DirSrc)}, "dst": {KindDir, uint32(DirDst)},
	"host": {KindAddrType, uint32(AddrHost)}, "net": {KindAddrType, uint32(AddrNet)},
	"port": {KindAddrType, uint32(AddrPort)}, "portrange": {KindAddrType, uint32(AddrPortrange)},
	"gateway": {KindAddrType, uint32(AddrGateway)}, "proto": {KindAddrType, uint32(AddrProto)},
	"protochain": {KindAddrType, uint32(AddrProtochain)}, "mask": {kind: KindMask},
	"and": {kind: KindAnd}, "or": {kind: KindOr}, "not": {KindSymbol, '!'},
	"len": {kind: KindLen}, "length": {kind: KindLen},
	"less": {kind: KindLess}, "greater": {kind: KindGreater}, "byte": {kind: KindByte},
	"broadcast": {kind: KindBroadcast}, "multicast": {kind: KindMulticast},
	"inbound": {KindDirection, 0}, "outbound": {KindDirection, 1},
	"vlan": {KindEncap, uint32(EncapVLAN)}, "mpls": {KindEncap, uint32(EncapMPLS)},
	"pppoed": {KindEncap, uint32(EncapPPPoED)}, "pppoes": {KindEncap, uint32(EncapPPPoES)},
	"geneve": {KindEncap, uint32(EncapGeneve)}, "vxlan": {KindEncap, uint32(EncapVXLAN)}, "llc": {kind: KindLLC},
	"ifindex": {kind: KindIfindex}, "inner": {kind: KindInner},
}

// protocols are the words that can be a test, a qualifier, or indexed. All names of link layers
// mean "the link layer".
var protocols = map[string]Proto{
	"link": ProtoLink, "ether": ProtoLink, "ppp": ProtoLink, "slip": ProtoLink, "fddi": ProtoLink, "tr": ProtoLink,
	"wlan": ProtoLink, "arp": ProtoARP, "rarp": ProtoRARP, "ip": ProtoIP, "sctp": ProtoSCTP, "tcp": ProtoTCP,
	"udp": ProtoUDP, "icmp": ProtoICMP, "igmp": ProtoIGMP, "igrp": ProtoIGRP, "pim": ProtoPIM, "vrrp": ProtoVRRP,
	"carp": ProtoCARP, "ip6": ProtoIP6, "icmp6": ProtoICMP6, "ah": ProtoAH, "esp": ProtoESP, "atalk": ProtoATALK,
	"aarp": ProtoAARP, "decnet": ProtoDECNET, "lat": ProtoLAT, "sca": ProtoSCA, "moprc": ProtoMOPRC, "mopdl": ProtoMOPDL,
	"iso": ProtoISO, "esis": ProtoESIS, "es-is": ProtoESIS, "isis": ProtoISIS, "is-is": ProtoISIS, "l1": ProtoL1,
	"l2": ProtoL2, "iih": ProtoIIH, "lsp": ProtoLSP, "snp": ProtoSNP, "csnp": ProtoCSNP, "psnp": ProtoPSNP,
	"clnp": ProtoCLNP, "stp": ProtoSTP, "ipx": ProtoIPX, "netbeui": ProtoNETBEUI,
}

// constants are names of offsets, message types and flags. They can replace any number.
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

// noWiFi is the reason why words about 802.11 do not work, neither in a capture nor for a file.
const noWiFi = "filters do not know 802.11"

// choosesInterface is the reason why words that choose an interface do not work.
const choosesInterface = "a filter does not choose the interface"

// refusals are the reasons why words of pcap-filter do not work here.
var refusals = func() map[string]string {
	m := make(map[string]string)
	for reason, words := range map[string][]string{
		noWiFi: {"type", "subtype", "direction", "dir", "address1", "addr1", "address2", "addr2", "address3", "addr3", "address4",
			"addr4", "ra", "ta", "radio"},
		"ATM does not exist on Ethernet": {"lane", "metac", "bcc", "oam", "oamf4", "oamf4ec", "oamf4sc", "sc", "ilmic", "vpi",
			"vci", "connectmsg", "metaconnect"},
		choosesInterface: {"on", "ifname"},
		"it exists only in OpenBSD's packet filter log": {"rset", "ruleset", "rnr", "rulenum", "srnr", "subrulenum",
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

// IsKeyword reports whether a word is an operator, a qualifier or a protocol.
func IsKeyword(word string) bool {
	_, operator := keywords[word]
	_, protocol := protocols[word]
	return operator || protocol
}
