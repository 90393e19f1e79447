package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// tunnel tests for a header over UDP that carries frames, over IPv4 and IPv6. in makes the test for
// one version of IP. offsets makes the code that stores, in scratch words for later tests, where
// the carried headers begin. That code finds the variable part of the UDP header's offset in A and
// X.
func (g *generator) tunnel(s *syntax.Special, in func(s *syntax.Special, typ uint32, body from) *graph.Block,
	offsets func(t syntax.Token) []*graph.Stmt) *graph.Block {
	// The last block of each version computes that variable part. Its test is always true.
	v4 := in(s, wire.EtherIP, fromIPv4Body)
	v4 = graph.And(v4, graph.New(cbpf.JeqX, 0, append(g.ipv4Length(), graph.Op(cbpf.Txa, 0))...))
	v6 := in(s, wire.EtherIP6, fromIPv6Body)
	start := append(g.base(&g.payload), graph.Op(cbpf.LdImm, 40))
	if g.payload.variable {
		start = append(start, graph.Op(cbpf.AddX, 0))
	}
	v6 = graph.And(v6, graph.New(cbpf.JeqX, 0, append(start, graph.Op(cbpf.Tax, 0))...))
	b := graph.Or(v4, v6)
	next := always(true)
	next.Stmts = append(offsets(s.At), next.Stmts...)
	return graph.And(b, next)
}

// udpTo is the test for a UDP destination port.
func udpTo(t syntax.Token, port uint32) *syntax.Primitive {
	return &syntax.Primitive{At: t, Qual: syntax.Qualifier{Type: syntax.AddrPort, Dir: syntax.DirDst},
		Meaning: syntax.Meaning{Transport: syntax.ProtoUDP, Ports: [2]uint32{port, port}}}
}
