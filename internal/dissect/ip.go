package dissect

import (
	"net/netip"

	"github.com/gopacket/gopacket/layers"
)

// network holds the fields of the last IP header that later headers need.
type network struct {
	version  int
	src, dst []byte
	finalDst []byte // the destination that checksums cover, which a source route changes
	proto    layers.IPProtocol
	hops     uint8
	fragment bool // it is not the whole packet
}

func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// hosts appends the addresses of the last IP header.
func (d *Dissector) hosts() {
	if d.ended {
		return
	}
	d.line = addr(d.net.src).AppendTo(d.line)
	d.add(" > ")
	d.line = addr(d.net.dst).AppendTo(d.line)
	d.add(": ")
}

// ports appends the addresses with ports, or only the ports if the line already has the addresses,
// as it does after an extension header.
func (d *Dissector) ports(proto layers.IPProtocol, src, dst uint16) {
	if d.ended {
		return
	}
	if d.net.proto != proto {
		d.number("", uint64(src))
		d.number(" > ", uint64(dst))
		d.add(": ")
		return
	}
	d.line = addr(d.net.src).AppendTo(d.line)
	d.number(".", uint64(src))
	d.add(" > ")
	d.line = addr(d.net.dst).AppendTo(d.line)
	d.number(".", uint64(dst))
	d.add(": ")
}

// hasPorts reports whether the addresses are shown together with the ports, directly after the IP
// header.
func hasPorts(proto layers.IPProtocol) bool {
	return proto == layers.IPProtocolTCP || proto == layers.IPProtocolUDP || proto == layers.IPProtocolSCTP || proto == 33
}

var protocolNames = map[layers.IPProtocol]string{0: "Options", 1: "ICMP", 2: "IGMP", 4: "IPIP", 6: "TCP", 8: "EGP", 9: "IGRP",
	17: "UDP", 33: "DCCP", 41: "IPv6", 43: "Routing", 44: "Fragment", 46: "RSVP", 47: "GRE", 50: "ESP", 51: "AH", 55: "Mobile IP",
	58: "ICMPv6", 62: "Mobile IP (old)", 88: "EIGRP", 89: "OSPF", 103: "PIM", 108: "Compressed IP", 112: "VRRP",
	113: "PGM", 132: "SCTP", 135: "Mobility", 143: "Ethernet"}

// ipPayload appends the payload of IP.
func (d *Dissector) ipPayload(proto layers.IPProtocol, b []byte, length int) {
	if d.ended {
		return
	}
	if length < 0 { // the headers before it claim to be longer than the packet
		d.truncated()
		return
	}
	four := d.net.version == 4
	requires := func(version int) {
		d.addf("[%s requires IPv%d]", lookUp(protocolNames, proto, "unknown"), version)
		d.invalid()
	}
	switch proto {
	case layers.IPProtocolTCP:
		d.tcpSegment(b, length)
	case layers.IPProtocolUDP:
		d.udpDatagram(b, length)
	case layers.IPProtocolSCTP:
		d.sctp(b, length)
	case layers.IPProtocolICMPv4:
		if four {
			d.icmp(b, length)
		} else {
			requires(4)
		}
	case layers.IPProtocolICMPv6:
		if four {
			requires(6)
		} else {
			d.icmp6(b, length)
		}
	case layers.IPProtocolIGMP:
		if four {
			d.igmp(b, length)
		} else {
			requires(4)
		}
	case layers.IPProtocolIPv4:
		d.ipv4(b, length)
	case layers.IPProtocolIPv6:
		d.ipv6(b, length)
	case layers.IPProtocolGRE:
		d.greHeader(b, length)
	case layers.IPProtocolAH:
		d.ah(b, length)
	case layers.IPProtocolESP:
		d.esp(b, length)
	case layers.IPProtocolVRRP:
		d.vrrp(b, length)
	case layers.IPProtocolNoNextHeader:
		d.add("no next header")
	case 103:
		d.pim(b, length)
	case 143:
		if four {
			requires(6)
		} else {
			d.ether(b, length)
		}
	case layers.IPProtocolOSPF:
		d.ospf(b, length)
	case 88:
		d.eigrp(b, length)
	case 8, 9, 33, 46, 55, 77, 108, 113:
		// tcpdump prints more of these.
		if hasPorts(proto) {
			d.hosts()
		}
		d.addf("%s (%d), length %d", lookUp(protocolNames, proto, "unknown"), uint8(proto), length)
	default:
		d.number(" ip-proto-", uint64(proto))
		d.number(" ", uint64(length))
	}
}
