package filter

// Numbers of protocols above IP (IANA).
const (
	ipICMP     = 1
	ipIGMP     = 2
	ipTCP      = 6
	ipIGRP     = 9
	ipUDP      = 17
	ipFragment = 44
	ipESP      = 50
	ipAH       = 51
	ipICMP6    = 58
	ipPIM      = 103
	ipVRRP     = 112 // and CARP
	ipSCTP     = 132
)

var transports = map[proto]uint32{protoTCP: ipTCP, protoUDP: ipUDP, protoSCTP: ipSCTP}

// ports tests for a port or range in one version of IP.
func (g *generator) ports(p *primitive, typ uint32) *block {
	link := g.linkIs(p.at, typ)
	if n, ok := transports[p.transport]; ok {
		return and(link, g.portsOf(p, typ, n))
	}
	tcp := g.portsOf(p, typ, ipTCP)
	b := or(tcp, g.portsOf(p, typ, ipUDP))
	b = or(g.portsOf(p, typ, ipSCTP), b)
	return and(link, b)
}

func (g *generator) portsOf(p *primitive, typ, transport uint32) *block {
	body := fromIPv6Body
	var head *block
	if typ == etherIP {
		body = fromIPv4Body
		head = g.equal(field{fromNetwork, 9}, sizeB, transport)
		head = and(head, g.firstFragment())
	} else {
		head = g.equal(field{fromNetwork, 6}, sizeB, transport)
	}
	return and(head, directed(p.qual.dir, func(source bool) *block {
		f := field{body, 2}
		if source {
			f.offset = 0
		}
		if p.qual.typ == addrPort {
			return g.equal(f, sizeH, p.ports[0])
		}
		low := g.compare(f, sizeH, opJge, p.ports[0])
		return and(low, not(g.compare(f, sizeH, opJgt, p.ports[1])))
	}))
}

// firstFragment is true where the transport header is in the packet.
func (g *generator) firstFragment() *block {
	return not(g.compare(field{fromNetwork, 6}, sizeH, opJset, 0x1fff))
}
