package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// vxlan tests for VXLAN (RFC 7348), whose header of 8 bytes carries Ethernet.
func (g *generator) vxlan(s *syntax.Special) *graph.Block {
	b := g.tunnel(s, g.vxlanIn, g.vxlanOffsets)
	g.previous = false
	return b
}

// vxlanIn tests for VXLAN's port, flags and number over one version of IP.
func (g *generator) vxlanIn(s *syntax.Special, typ uint32, body from) *graph.Block {
	b := g.ports(udpTo(s.At, wire.VXLANPort), typ)
	b = graph.And(b, g.equal(field{body, 8}, cbpf.SizeB, 0x08))
	if s.Has {
		limit(s, 0xffffff)
		b = graph.And(b, g.masked(field{body, 12}, cbpf.SizeW, s.Arg<<8, 0xffffff00))
	}
	return b
}

// vxlanOffsets is the code that stores the offsets of the inner link header, its type and its
// payload.
func (g *generator) vxlanOffsets(t syntax.Token) []*graph.Stmt {
	const udpHeader, header = 8, 8
	s := []*graph.Stmt{graph.Op(cbpf.Add, g.payload.constant+g.nl+udpHeader), graph.Op(cbpf.Add, header)}
	g.linkhdr = offset{variable: true, slot: g.slot(t)}
	s = append(s, graph.Op(cbpf.St, uint32(g.linkhdr.slot)), graph.Op(cbpf.Add, 12))
	g.linktype = offset{variable: true, slot: g.slot(t)}
	s = append(s, graph.Op(cbpf.St, uint32(g.linktype.slot)), graph.Op(cbpf.Add, 2), graph.Op(cbpf.Tax, 0))
	g.payload = offset{variable: true, slot: g.slot(t)}
	s = append(s, graph.Op(cbpf.Stx, uint32(g.payload.slot)))
	g.link, g.nl = linkEthernet, 0
	return s
}
