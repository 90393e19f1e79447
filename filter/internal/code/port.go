package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// transports are the protocols that have ports.
var transports = map[syntax.Proto]uint32{syntax.ProtoTCP: names.IPTCP, syntax.ProtoUDP: names.IPUDP, syntax.ProtoSCTP: names.IPSCTP}

// ports tests for a port or a range of ports over one version of IP, whose frame type is typ.
func (g *generator) ports(p *syntax.Primitive, typ uint32) *Block {
	link := g.linkIs(p.At, typ)
	if n, ok := transports[p.Transport]; ok {
		return And(link, g.portsOf(p, typ, n))
	}
	tcp := g.portsOf(p, typ, names.IPTCP)
	b := Or(tcp, g.portsOf(p, typ, names.IPUDP))
	b = Or(g.portsOf(p, typ, names.IPSCTP), b)
	return And(link, b)
}

// portsOf is the part of ports for one transport.
func (g *generator) portsOf(p *syntax.Primitive, typ, transport uint32) *Block {
	b := g.portsAfterIP(p, typ, transport)
	if g.fragments && typ == names.EtherIP6 {
		b = Or(b, g.portsOfFirst(p, transport))
	}
	return b
}

// portsAfterIP is the part of portsOf for packets whose transport header follows the IP header.
// First fragments of IPv4 are among them, but not those of IPv6, which have a fragment header
// between.
func (g *generator) portsAfterIP(p *syntax.Primitive, typ, transport uint32) *Block {
	if typ == names.EtherIP {
		head := g.equal(field{fromNetwork, 9}, cbpf.SizeB, transport)
		return And(And(head, g.firstFragment()), g.portsAt(p, field{fromIPv4Body, 0}))
	}
	return And(g.equal(field{fromNetwork, 6}, cbpf.SizeB, transport), g.portsAt(p, field{fromIPv6Body, 0}))
}

// portsOfFirst is portsOf for a first fragment of IPv6, whose fragment header is the first after
// IPv6's.
func (g *generator) portsOfFirst(p *syntax.Primitive, transport uint32) *Block {
	const size = 8 // of the fragment header
	head := And(g.equal(field{fromNetwork, 6}, cbpf.SizeB, names.IPFragment), g.equal(field{fromIPv6Body, 0}, cbpf.SizeB, transport))
	head = And(head, Not(g.compare(field{fromIPv6Body, 2}, cbpf.SizeH, cbpf.OpJset, 0xfff8)))
	return And(head, g.portsAt(p, field{fromIPv6Body, size}))
}

// portsAt compares the ports at the beginning of a transport header.
func (g *generator) portsAt(p *syntax.Primitive, at field) *Block {
	return directed(p.Qual.Dir, func(source bool) *Block {
		f := at
		if !source {
			f.offset += 2
		}
		if p.At.Kind == syntax.KindSet {
			return g.isIn(p, f, cbpf.SizeH)
		}
		if p.Qual.Type == syntax.AddrPort {
			return g.equal(f, cbpf.SizeH, p.Ports[0])
		}
		low := g.compare(f, cbpf.SizeH, cbpf.OpJge, p.Ports[0])
		return And(low, Not(g.compare(f, cbpf.SizeH, cbpf.OpJgt, p.Ports[1])))
	})
}

// firstFragment tests that an IPv4 packet is unfragmented or a first fragment: only these have a
// transport header.
func (g *generator) firstFragment() *Block {
	return Not(g.compare(field{fromNetwork, 6}, cbpf.SizeH, cbpf.OpJset, 0x1fff))
}
