package main

import "net/netip"

// IP protocol numbers that have a printer.
const (
	protoHopByHop = 0
	protoICMP     = 1
	protoIPIP     = 4
	protoTCP      = 6
	protoUDP      = 17
	protoIP6      = 41
	protoRouting  = 43
	protoFragment = 44
	protoGRE      = 47
	protoESP      = 50
	protoICMP6    = 58
	protoNone     = 59
	protoDestOpts = 60
	protoSCTP     = 132
)

var protoNames = map[uint8]string{
	protoHopByHop: "Options", protoICMP: "ICMP", 2: "IGMP", protoIPIP: "IPIP", protoTCP: "TCP", 8: "EGP", 9: "IGRP",
	protoUDP: "UDP", 33: "DCCP", protoIP6: "IPv6", protoRouting: "Routing", protoFragment: "Fragment", 46: "RSVP",
	protoGRE: "GRE", protoESP: "ESP", 51: "AH", 55: "Mobile IP", protoICMP6: "ICMPv6", 88: "EIGRP", 89: "OSPF",
	103: "PIM", 108: "Compressed IP", 112: "VRRP", 113: "PGM", protoSCTP: "SCTP",
}

func protoName(proto uint8) string {
	if name, ok := protoNames[proto]; ok {
		return name
	}
	return "unknown"
}

// maxDepth bounds IP in IP in IP.
const maxDepth = 8

// network is what the printer of a transport header needs to know of the IP header before it.
type network struct {
	src, dst netip.Addr
	proto    uint8
	partial  bool // the checksum cannot be told: a fragment, or the last destination is elsewhere
	named    bool // the addresses are already printed
	depth    int  // IP headers before this one
}

// hosts prints the addresses, once.
func (p *printer) hosts(n *network) {
	if !n.named {
		p.addf("%s > %s: ", n.src, n.dst)
		n.named = true
	}
}

// ports prints the addresses with ports, or after IPv6's extension headers the ports alone.
func (p *printer) ports(n *network, src, dst uint16) {
	if n.named {
		p.addf("%d > %d: ", src, dst)
		return
	}
	p.addf("%s.%d > %s.%d: ", n.src, src, n.dst, dst)
	n.named = true
}

func (p *printer) ip4(b []byte, length, depth int) {
	if len(b) > 0 && b[0]>>4 != 4 {
		p.addf("IP%d (invalid)", b[0]>>4)
		return
	}
	p.add("IP ")
	if length < 20 {
		p.addf("truncated-ip %d", length)
		return
	}
	if len(b) < 20 {
		p.cut("ip")
		return
	}
	hlen, total := int(b[0]&0xf)*4, int(be.Uint16(b[2:]))
	if hlen < 20 {
		p.addf("bad-hlen %d", hlen)
		return
	}
	if total > length {
		p.addf("truncated-ip - %d bytes missing! ", total-length)
	}
	if total == 0 {
		total = length // the sender left segmentation to its card
	}
	if total < hlen {
		p.addf("bad-len %d", total)
		return
	}
	b = b[:min(total, len(b))] // not the frame's padding
	if p.verbosity > 0 {
		p.ip4Header(b, hlen)
	}
	frag := be.Uint16(b[6:])
	n := network{src: addr4(b[12:]), dst: addr4(b[16:]), proto: b[9], partial: frag&0x2000 != 0, depth: depth}
	if p.verbosity < 1 && frag&0x3fff != 0 {
		defer p.fragment(be.Uint16(b[4:]), frag, total-hlen)
	}
	if frag&0x1fff != 0 {
		p.addf("%s > %s: ip-proto-%d", n.src, n.dst, n.proto)
		return
	}
	if len(b) < hlen {
		p.hosts(&n)
		p.addf(" [remaining caplen(%d) < header length(%d)]", len(b), hlen)
		p.cut("ip")
		return
	}
	p.transport(&n, b[hlen:], total-hlen)
}

// fragment ends the line of a fragment. tcpdump shows this only with -v, and only as part of the header.
func (p *printer) fragment(id, frag uint16, length int) {
	more := ""
	if frag&0x2000 != 0 {
		more = ", flags [+]"
	}
	p.addf(", frag (id %d, offset %d%s, length %d)", id, int(frag&0x1fff)*8, more, length)
}

// ip4Header prints the fields that -v shows in front of a line of its own.
func (p *printer) ip4Header(b []byte, hlen int) {
	p.addf("(tos 0x%x%s", b[1], [4]string{"", ",ECT(1)", ",ECT(0)", ",CE"}[b[1]&3])
	if b[8] > 0 {
		p.addf(", ttl %d", b[8])
	}
	frag := be.Uint16(b[6:])
	flags := names("none", uint32(frag>>13), []string{"+", "DF", "rsvd"})
	p.addf(", id %d, offset %d, flags [%s], proto %s (%d), length %d",
		be.Uint16(b[4:]), int(frag&0x1fff)*8, flags, protoName(b[9]), b[9], be.Uint16(b[2:]))
	if hlen > 20 {
		p.addf(", options (%d bytes)", hlen-20)
	}
	if len(b) >= hlen && sum(0, b[:hlen]) != 0 {
		p.addf(", bad cksum %x (->%x)!", be.Uint16(b[10:]), sum(sumPart(0, b[:10]), b[12:hlen]))
	}
	p.add(")\n    ")
}

func (p *printer) ip6(b []byte, length, depth int) {
	if len(b) < 40 && len(b) < length {
		p.cut("ip6")
		return
	}
	if length < 40 {
		p.addf("truncated-ip6 %d", length)
		return
	}
	p.add("IP6 ")
	if b[0]>>4 != 6 {
		p.addf("version error: %d != 6", b[0]>>4)
		return
	}
	payload := int(be.Uint16(b[4:]))
	if payload+40 > length {
		p.addf("truncated-ip6 - %d bytes missing!", payload+40-length)
	}
	if p.verbosity > 0 {
		flow := be.Uint32(b)
		p.add("(")
		if class := flow >> 20 & 0xff; class != 0 {
			p.addf("class 0x%02x, ", class)
		}
		if label := flow & 0xfffff; label != 0 {
			p.addf("flowlabel 0x%05x, ", label)
		}
		p.addf("hlim %d, next-header %s (%d) payload length: %d) ", b[7], protoName(b[6]), b[6], payload)
	}
	n := network{src: addr6(b[8:]), dst: addr6(b[24:]), proto: b[6], depth: depth}
	if payload > 0 || n.proto != protoHopByHop { // else a jumbogram, whose length is in an option
		b, length = b[:min(40+payload, len(b))], 40+payload
	}
	p.extensions(&n, b[40:], length-40)
}

// extensions prints IPv6's extension headers and what follows them.
func (p *printer) extensions(n *network, b []byte, length int) {
	for {
		switch n.proto {
		case protoHopByHop, protoDestOpts, protoRouting, protoFragment:
		default:
			p.transport(n, b, length)
			return
		}
		p.hosts(n)
		if len(b) < 8 {
			p.cut("ip6")
			return
		}
		size := 8 + int(b[1])*8
		switch n.proto {
		case protoHopByHop:
			p.add("HBH ")
		case protoDestOpts:
			p.add("DSTOPT ")
		case protoRouting:
			p.addf("RT6 (len=%d, type=%d, segleft=%d) ", b[1], b[2], b[3])
			n.partial = n.partial || b[3] > 0
		case protoFragment:
			size = 8
			off := be.Uint16(b[2:])
			p.add("frag (")
			if p.verbosity > 0 {
				p.addf("0x%08x:", be.Uint32(b[4:]))
			}
			p.addf("%d|%d)", off&^7, length-8)
			if off&^7 != 0 {
				return
			}
			p.add(" ")
			n.partial = true
		}
		n.proto = b[0]
		if size > len(b) {
			p.cut("ip6")
			return
		}
		b, length = b[size:], length-size
	}
}

// transport prints what an IP header carries.
func (p *printer) transport(n *network, b []byte, length int) {
	switch n.proto {
	case protoTCP:
		p.tcp(n, b, length)
		return
	case protoUDP:
		p.udp(n, b, length)
		return
	}
	p.hosts(n)
	switch n.proto {
	case protoICMP:
		p.icmp(n, b, length)
	case protoICMP6:
		p.icmp6(n, b, length)
	case protoIPIP, protoIP6:
		if n.depth >= maxDepth {
			p.addf("%s, length %d", protoName(n.proto), length)
		} else if n.proto == protoIPIP {
			p.ip4(b, length, n.depth+1)
		} else {
			p.ip6(b, length, n.depth+1)
		}
	case protoGRE:
		p.gre(n, b, length)
	case protoESP:
		if len(b) < 8 {
			p.cut("esp")
			return
		}
		p.addf("ESP(spi=0x%08x,seq=0x%x), length %d", be.Uint32(b), be.Uint32(b[4:]), length)
	case protoNone:
		p.add("no next header")
	default:
		if name, ok := protoNames[n.proto]; ok {
			p.addf("%s (%d), length %d", name, n.proto, length)
			return
		}
		p.addf(" ip-proto-%d %d", n.proto, length)
	}
}
