package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// geneve tests for Geneve (RFC 8926). Its header has a variable length, and carries Ethernet or
// another protocol.
func (g *generator) geneve(s *syntax.Special) *graph.Block {
	b := g.tunnel(s, g.geneveIn, g.geneveOffsets)
	g.previous, g.verbatim = true, true
	return b
}

// geneveIn tests for Geneve's port, version and number over one version of IP.
func (g *generator) geneveIn(s *syntax.Special, typ uint32, body from) *graph.Block {
	b := g.ports(udpTo(s.At, wire.GenevePort), typ)
	b = graph.And(b, g.masked(field{body, 8}, cbpf.SizeB, 0, 0xc0))
	if s.Has {
		limit(s, 0xffffff)
		b = graph.And(b, g.masked(field{body, 12}, cbpf.SizeW, s.Arg<<8, 0xffffff00))
	}
	return b
}

// geneveOffsets is the code that stores the offsets of the inner link header, its type and its
// payload. If the payload is not Ethernet, the Geneve header itself serves as the link header,
// because its protocol field is the type.
func (g *generator) geneveOffsets(t syntax.Token) []*graph.Stmt {
	s := []*graph.Stmt{graph.Op(cbpf.Add, g.payload.constant+g.nl+8), graph.Op(cbpf.Tax, 0), graph.Op(cbpf.Add, 2)}
	g.linktype = offset{variable: true, slot: g.slot(t)}
	s = append(s, graph.Op(cbpf.St, uint32(g.linktype.slot)),
		graph.Op(cbpf.LdInd|cbpf.SizeB, 0), graph.Op(cbpf.And, 0x3f), graph.Op(cbpf.Mul, 4), graph.Op(cbpf.Add, 8),
		graph.Op(cbpf.AddX, 0))
	g.linkhdr = offset{variable: true, slot: g.slot(t)}
	s = append(s, graph.Op(cbpf.St, uint32(g.linkhdr.slot)), graph.Op(cbpf.LdInd|cbpf.SizeH, 2), graph.Op(cbpf.LdxMem, uint32(g.linkhdr.slot)))
	g.payload = offset{variable: true, slot: g.slot(t)}
	isEthernet, store := graph.Op(cbpf.Txa, 0), graph.Op(cbpf.Stx, uint32(g.payload.slot))
	choose := graph.Op(cbpf.Jeq, wire.EtherTEB)
	choose.Jt, choose.Jf = isEthernet, store
	g.link, g.nl = linkEthernet, 0
	return append(s, choose, isEthernet, graph.Op(cbpf.Add, 12), graph.Op(cbpf.St, uint32(g.linktype.slot)), graph.Op(cbpf.Add, 2),
		graph.Op(cbpf.Tax, 0), store)
}
