package filter

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

var transports = map[proto]uint32{protoTCP: wire.IPTCP, protoUDP: wire.IPUDP, protoSCTP: wire.IPSCTP}

// ports tests for a port or range in one version of IP.
func (g *generator) ports(p *primitive, typ uint32) *block {
	link := g.linkIs(p.at, typ)
	if n, ok := transports[p.transport]; ok {
		return and(link, g.portsOf(p, typ, n))
	}
	tcp := g.portsOf(p, typ, wire.IPTCP)
	b := or(tcp, g.portsOf(p, typ, wire.IPUDP))
	b = or(g.portsOf(p, typ, wire.IPSCTP), b)
	return and(link, b)
}

func (g *generator) portsOf(p *primitive, typ, transport uint32) *block {
	body := fromIPv6Body
	var head *block
	if typ == wire.EtherIP {
		body = fromIPv4Body
		head = g.equal(field{fromNetwork, 9}, cbpf.SizeB, transport)
		head = and(head, g.firstFragment())
	} else {
		head = g.equal(field{fromNetwork, 6}, cbpf.SizeB, transport)
	}
	return and(head, directed(p.qual.dir, func(source bool) *block {
		f := field{body, 2}
		if source {
			f.offset = 0
		}
		if p.qual.typ == addrPort {
			return g.equal(f, cbpf.SizeH, p.ports[0])
		}
		low := g.compare(f, cbpf.SizeH, cbpf.OpJge, p.ports[0])
		return and(low, not(g.compare(f, cbpf.SizeH, cbpf.OpJgt, p.ports[1])))
	}))
}

// firstFragment is true where the transport header is in the packet.
func (g *generator) firstFragment() *block {
	return not(g.compare(field{fromNetwork, 6}, cbpf.SizeH, cbpf.OpJset, 0x1fff))
}
