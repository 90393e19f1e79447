package dissect

import (
	"net/netip"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// Protocols of IP, besides those of package headers, and IPv6's extension headers.
const (
	protoHopByHop    = 0
	protoIGMP        = 2
	protoIPv4        = 4
	protoIPv6        = 41
	protoRouting     = 43
	protoFragment    = 44
	protoGRE         = 47
	protoESP         = 50
	protoAH          = 51
	protoNone        = 59 // no next header
	protoDestination = 60
	protoMobileOld   = 62
	protoEIGRP       = 88
	protoOSPF        = 89
	protoPIM         = 103
	protoVRRP        = 112
	protoMobility    = 135
	protoEthernet    = 143
)

// network holds the fields of the last IP header that later headers need.
type network struct {
	version    int // 4 or 6; 0 = there was no IP header yet
	src, dst   []byte
	finalDst   []byte // the destination that checksums cover, which a source route changes
	proto      uint8
	hops       uint8
	isFragment bool
}

func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// hosts appends the addresses of the last IP header.
func (d *Dissector) hosts() {
	d.line = addr(d.net.src).AppendTo(d.line)
	d.add(" > ")
	d.line = addr(d.net.dst).AppendTo(d.line)
	d.add(": ")
}

// ports appends the addresses with ports, or only the ports if the line already has the addresses,
// as it does after an extension header.
func (d *Dissector) ports(proto uint8, src, dst uint16) {
	if d.net.proto != proto {
		d.number("", uint64(src))
		d.number(" > ", uint64(dst))
	} else {
		d.line = addr(d.net.src).AppendTo(d.line)
		d.number(".", uint64(src))
		d.add(" > ")
		d.line = addr(d.net.dst).AppendTo(d.line)
		d.number(".", uint64(dst))
	}
	d.add(": ")
}

// hasPorts reports whether the addresses are shown together with the ports, directly after the IP
// header.
func hasPorts(proto uint8) bool {
	return proto == headers.TCP || proto == headers.UDP || proto == headers.SCTP || proto == headers.DCCP
}

var protocolNames = map[uint8]string{0: "Options", 1: "ICMP", 2: "IGMP", 4: "IPIP", 6: "TCP", 8: "EGP", 9: "IGRP",
	17: "UDP", 33: "DCCP", 41: "IPv6", 43: "Routing", 44: "Fragment", 46: "RSVP", 47: "GRE", 50: "ESP", 51: "AH", 55: "Mobile IP",
	58: "ICMPv6", 62: "Mobile IP (old)", 88: "EIGRP", 89: "OSPF", 103: "PIM", 108: "Compressed IP", 112: "VRRP",
	113: "PGM", 132: "SCTP", 135: "Mobility", 143: "Ethernet"}

// requiredVersion returns the version of IP that a protocol requires; 0 = any.
func requiredVersion(proto uint8) int {
	switch proto {
	case headers.ICMP, protoIGMP:
		return 4
	case headers.ICMPv6, protoEthernet:
		return 6
	}
	return 0
}

// ipPayload appends the payload of IP.
func (d *Dissector) ipPayload(proto uint8, b []byte, length int) {
	if length < 0 { // the headers before it claim to be longer than the packet
		d.truncated()
	}
	if version := requiredVersion(proto); version != 0 && version != d.net.version {
		d.addf("[%s requires IPv%d]", protocolNames[proto], version)
		d.invalid()
		return
	}
	switch proto {
	case headers.TCP:
		d.tcp(b, length)
	case headers.UDP:
		d.udp(b, length)
	case headers.SCTP:
		d.sctp(b, length)
	case headers.ICMP:
		d.icmp(b, length)
	case headers.ICMPv6:
		d.icmp6(b, length)
	case protoIGMP:
		d.igmp(b, length)
	case protoIPv4:
		d.ipv4(b, length)
	case protoIPv6:
		d.ipv6(b, length)
	case protoGRE:
		d.gre(b, length)
	case protoAH:
		d.ah(b, length)
	case protoESP:
		d.esp(b, length)
	case protoVRRP:
		d.vrrp(b, length)
	case protoNone:
		d.add("no next header")
	case protoPIM:
		d.pim(b, length)
	case protoEthernet:
		d.ether(b, length)
	case protoOSPF:
		d.ospf(b, length)
	case protoEIGRP:
		d.eigrp(b, length)
	case 8, 9, 46, 55, 77, 108, 113, headers.DCCP: // tcpdump prints more of these
		if hasPorts(proto) {
			d.hosts()
		}
		d.addf("%s (%d), length %d", lookUp(protocolNames, proto, "unknown"), proto, length)
	default:
		d.number(" ip-proto-", uint64(proto))
		d.number(" ", uint64(length))
	}
}
