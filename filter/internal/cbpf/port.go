package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// transports are the protocols that have ports.
var transports = map[syntax.Proto]uint32{syntax.ProtoTCP: IPTCP, syntax.ProtoUDP: IPUDP, syntax.ProtoSCTP: IPSCTP}

// ports tests for a port or a range of ports over one version of IP, whose frame type is typ.
func (g *generator) ports(p *syntax.Primitive, typ uint32) *block {
	link := g.linkIs(p.At, typ)
	if n, ok := transports[p.Transport]; ok {
		return and(link, g.portsOf(p, typ, n))
	}
	tcp := g.portsOf(p, typ, IPTCP)
	b := or(tcp, g.portsOf(p, typ, IPUDP))
	b = or(g.portsOf(p, typ, IPSCTP), b)
	return and(link, b)
}

// portsOf is the part of ports for one transport.
func (g *generator) portsOf(p *syntax.Primitive, typ, transport uint32) *block {
	b := g.portsAfterIP(p, typ, transport)
	if g.Fragments && typ == EtherIP6 {
		b = or(b, g.portsOfFirst(p, transport))
	}
	return b
}

// portsAfterIP is the part of portsOf for packets whose transport header follows the IP header.
// This includes first fragments of IPv4. First fragments of IPv6 have a fragment header between.
func (g *generator) portsAfterIP(p *syntax.Primitive, typ, transport uint32) *block {
	if typ == EtherIP {
		head := g.equal(field{fromNetwork, 9}, SizeB, transport)
		return and(and(head, g.firstFragment()), g.portsAt(p, field{fromIPv4Body, 0}))
	}
	return and(g.equal(field{fromNetwork, 6}, SizeB, transport), g.portsAt(p, field{fromIPv6Body, 0}))
}

// portsOfFirst is portsOf for a first fragment of IPv6, with no other extension header before its
// fragment header.
func (g *generator) portsOfFirst(p *syntax.Primitive, transport uint32) *block {
	const size = 8 // of the fragment header
	head := and(g.equal(field{fromNetwork, 6}, SizeB, IPFragment), g.equal(field{fromIPv6Body, 0}, SizeB, transport))
	head = and(head, not(g.compare(field{fromIPv6Body, 2}, SizeH, OpJset, 0xfff8)))
	return and(head, g.portsAt(p, field{fromIPv6Body, size}))
}

// portsAt compares the ports at the beginning of a transport header.
func (g *generator) portsAt(p *syntax.Primitive, at field) *block {
	return directed(p.Qual.Dir, at, field{at.from, at.offset + 2}, func(f field) *block {
		if p.At.Kind == syntax.KindSet {
			return g.isIn(p, f, SizeH)
		}
		if p.Qual.Type == syntax.AddrPort {
			return g.equal(f, SizeH, p.Ports[0])
		}
		low := g.compare(f, SizeH, OpJge, p.Ports[0])
		return and(low, not(g.compare(f, SizeH, OpJgt, p.Ports[1])))
	})
}

// firstFragment tests that an IPv4 packet is unfragmented or a first fragment: only these have a
// transport header.
func (g *generator) firstFragment() *block {
	return not(g.compare(field{fromNetwork, 6}, SizeH, OpJset, 0x1fff))
}
