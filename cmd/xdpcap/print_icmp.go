package main

// icmpUnreachable are the texts of ICMP's unreachable codes; the verb stands for the destination.
var icmpUnreachable = []string{
	"net %s unreachable",
	"host %s unreachable",
	2:  "", // protocol
	3:  "", // port
	4:  "%s unreachable - need to frag",
	5:  "%s unreachable - source route failed",
	6:  "net %s unreachable - unknown",
	7:  "host %s unreachable - unknown",
	8:  "%s unreachable - source host isolated",
	9:  "net %s unreachable - admin prohibited",
	10: "host %s unreachable - admin prohibited",
	11: "net %s unreachable - tos prohibited",
	12: "host %s unreachable - tos prohibited",
	13: "host %s unreachable - admin prohibited filter",
	14: "host %s unreachable - host precedence violation",
	15: "host %s unreachable - precedence cutoff",
}

func (p *printer) icmp(n *network, b []byte, length int) {
	p.add("ICMP ")
	if len(b) < 8 {
		p.cut("icmp")
		return
	}
	typ, code, inner := b[0], b[1], b[8:]
	id, seq := be.Uint16(b[4:]), be.Uint16(b[6:])
	isError := typ == 3 || typ == 4 || typ == 5 || typ == 11 || typ == 12
	switch typ {
	case 0:
		p.addf("echo reply, id %d, seq %d", id, seq)
	case 8:
		p.addf("echo request, id %d, seq %d", id, seq)
	case 3:
		if !p.icmpUnreachable(code, seq, inner) {
			p.cut("icmp")
			return
		}
	case 4:
		p.add("source quench")
	case 5:
		if len(inner) < 20 {
			p.cut("icmp")
			return
		}
		format := "redirect %s to net %s"
		switch code {
		case 1:
			format = "redirect %s to host %s"
		case 2:
			format = "redirect-tos %s to net %s"
		case 3:
			format = "redirect-tos %s to host %s"
		}
		p.addf(format, addr4(inner[16:]), addr4(b[4:]))
	case 9:
		p.addf("router advertisement lifetime %d s", seq)
	case 10:
		p.add("router solicitation")
	case 11:
		switch code {
		case 0:
			p.add("time exceeded in-transit")
		case 1:
			p.add("ip reassembly time exceeded")
		default:
			p.addf("time exceeded-#%d", code)
		}
	case 12:
		if code != 0 {
			p.addf("parameter problem - code %d", code)
		} else {
			p.addf("parameter problem - octet %d", b[4])
		}
	case 13:
		p.addf("time stamp query id %d seq %d", id, seq)
	case 14:
		p.addf("time stamp reply id %d seq %d", id, seq)
	case 17:
		p.add("address mask request")
	default:
		p.addf("type-#%d", typ)
	}
	p.addf(", length %d", length)
	if p.verbosity < 1 {
		return
	}
	if !n.partial && len(b) >= length && sum(0, b[:length]) != 0 {
		p.addf(" (wrong icmp cksum %x (->%x)!)", be.Uint16(b[2:]), sum(sumPart(0, b[:2]), b[4:length]))
	}
	if isError && len(inner) >= 20 && n.depth < maxDepth {
		p.add("\n\t")
		p.ip4(inner, int(be.Uint16(inner[2:])), n.depth+1)
	}
}

// icmpUnreachable prints a code for the packet that could not be delivered. It is false where that one is cut.
func (p *printer) icmpUnreachable(code uint8, mtu uint16, inner []byte) bool {
	if len(inner) < 20 {
		return false
	}
	dst, proto := addr4(inner[16:]), inner[9]
	switch {
	case code == 2:
		p.addf("%s protocol %d unreachable", dst, proto)
	case code == 3:
		inner = inner[min(int(inner[0]&0xf)*4, len(inner)):]
		if len(inner) < 4 {
			return false
		}
		switch port := be.Uint16(inner[2:]); proto {
		case protoTCP:
			p.addf("%s tcp port %d unreachable", dst, port)
		case protoUDP:
			p.addf("%s udp port %d unreachable", dst, port)
		default:
			p.addf("%s protocol %d port %d unreachable", dst, proto, port)
		}
	case int(code) < len(icmpUnreachable):
		p.addf(icmpUnreachable[code], dst)
		if code == 4 && mtu != 0 {
			p.addf(" (mtu %d)", mtu)
		}
	default:
		p.addf("%s unreachable - #%d", dst, code)
	}
	return true
}
