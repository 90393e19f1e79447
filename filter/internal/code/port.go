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
	body := fromIPv6Body
	var head *Block
	if typ == names.EtherIP {
		body = fromIPv4Body
		head = g.equal(field{fromNetwork, 9}, cbpf.SizeB, transport)
		head = And(head, g.firstFragment())
	} else {
		head = g.equal(field{fromNetwork, 6}, cbpf.SizeB, transport)
	}
	return And(head, directed(p.Qual.Dir, func(source bool) *Block {
		f := field{body, 2}
		if source {
			f.offset = 0
		}
		if p.Qual.Type == syntax.AddrPort {
			return g.equal(f, cbpf.SizeH, p.Ports[0])
		}
		low := g.compare(f, cbpf.SizeH, cbpf.OpJge, p.Ports[0])
		return And(low, Not(g.compare(f, cbpf.SizeH, cbpf.OpJgt, p.Ports[1])))
	}))
}

// firstFragment tests that an IPv4 packet is unfragmented or a first fragment: only these have a
// transport header.
func (g *generator) firstFragment() *Block {
	return Not(g.compare(field{fromNetwork, 6}, cbpf.SizeH, cbpf.OpJset, 0x1fff))
}
