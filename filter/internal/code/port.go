package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// transports are the protocols that have ports.
var transports = map[syntax.Proto]uint32{syntax.ProtoTCP: wire.IPTCP, syntax.ProtoUDP: wire.IPUDP, syntax.ProtoSCTP: wire.IPSCTP}

// ports tests for a port or a range of ports over one version of IP, whose frame type is typ.
func (g *generator) ports(p *syntax.Primitive, typ uint32) *graph.Block {
	link := g.linkIs(p.At, typ)
	if n, ok := transports[p.Transport]; ok {
		return graph.And(link, g.portsOf(p, typ, n))
	}
	tcp := g.portsOf(p, typ, wire.IPTCP)
	b := graph.Or(tcp, g.portsOf(p, typ, wire.IPUDP))
	b = graph.Or(g.portsOf(p, typ, wire.IPSCTP), b)
	return graph.And(link, b)
}

// portsOf is the part of ports for one transport.
func (g *generator) portsOf(p *syntax.Primitive, typ, transport uint32) *graph.Block {
	body := fromIPv6Body
	var head *graph.Block
	if typ == wire.EtherIP {
		body = fromIPv4Body
		head = g.equal(field{fromNetwork, 9}, cbpf.SizeB, transport)
		head = graph.And(head, g.firstFragment())
	} else {
		head = g.equal(field{fromNetwork, 6}, cbpf.SizeB, transport)
	}
	return graph.And(head, directed(p.Qual.Dir, func(source bool) *graph.Block {
		f := field{body, 2}
		if source {
			f.offset = 0
		}
		if p.Qual.Type == syntax.AddrPort {
			return g.equal(f, cbpf.SizeH, p.Ports[0])
		}
		low := g.compare(f, cbpf.SizeH, cbpf.OpJge, p.Ports[0])
		return graph.And(low, graph.Not(g.compare(f, cbpf.SizeH, cbpf.OpJgt, p.Ports[1])))
	}))
}

// firstFragment tests that an IPv4 packet is unfragmented or a first fragment: only these have a
// transport header.
func (g *generator) firstFragment() *graph.Block {
	return graph.Not(g.compare(field{fromNetwork, 6}, cbpf.SizeH, cbpf.OpJset, 0x1fff))
}
