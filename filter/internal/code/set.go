package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// isIn tests whether a field is in a set.
func (g *generator) isIn(p *syntax.Primitive, f field, size int) *Block {
	return New(cbpf.Jeq, 1, g.load(f, size|cbpf.In(p.Set))...)
}

// addressIn tests whether an address is in a set, in the headers where host looks for one.
func (g *generator) addressIn(p *syntax.Primitive) (b *Block) {
	for _, h := range []struct {
		proto    syntax.Proto
		typ      uint32
		size     int
		src, dst uint32
		possible bool
	}{
		{syntax.ProtoIP, names.EtherIP, cbpf.SizeW, 12, 16, p.IPv4},
		{syntax.ProtoARP, names.EtherARP, cbpf.SizeW, 14, 24, p.IPv4 && g.labels == 0},
		{syntax.ProtoRARP, names.EtherRARP, cbpf.SizeW, 14, 24, p.IPv4 && g.labels == 0},
		{syntax.ProtoIP6, names.EtherIP6, cbpf.SizeAddress6, 8, 24, p.IPv6},
	} {
		if named := p.Qual.Proto; !h.possible || named != syntax.ProtoNone && named != h.proto {
			continue
		}
		b = Or(b, directed(p.Qual.Dir, func(source bool) *Block {
			at := h.dst
			if source {
				at = h.src
			}
			return And(g.linkIs(p.At, h.typ), g.isIn(p, field{fromNetwork, at}, h.size))
		}))
	}
	if b == nil {
		return always(false)
	}
	return b
}
