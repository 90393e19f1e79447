package cbpf

import (
	"encoding/binary"
	"net/netip"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// primitive tests for an identifier.
func (g *generator) primitive(p *syntax.Primitive) *block {
	switch p.Qual.Type {
	case syntax.AddrPort, syntax.AddrPortrange:
		b := g.ports(p, EtherIP)
		return or(g.ports(p, EtherIP6), b)
	case syntax.AddrProto:
		return g.proto(p.At, p.Number, p.Qual.Proto)
	case syntax.AddrProtochain:
		return g.protochain(p.At, p.Number, p.Qual.Proto)
	}
	switch {
	case p.At.Kind == syntax.KindSet:
		return g.addressIn(p)
	case p.At.Kind == syntax.KindEther:
		g.requireEthernet(p.At)
		return g.ethernet(g.mac(p.Ether[:], p.Qual.Dir))
	case len(p.Hosts) > 0:
		var b *block
		for _, a := range p.Hosts {
			b = or(b, g.address(p, a))
		}
		return b
	case p.Qual.Proto == syntax.ProtoDECNET:
		return g.decnet(p.At, p.Addr, p.Qual.Dir)
	}
	return g.ipv4Host(p.At, p.Addr, p.Netmask, p.Qual)
}

// address tests for one address of a host, or for an IPv6 network.
func (g *generator) address(p *syntax.Primitive, a netip.Addr) *block {
	if a.Is4() {
		return g.ipv4Host(p.At, binary.BigEndian.Uint32(a.AsSlice()), ^uint32(0), p.Qual)
	}
	return g.ipv6Host(p.At, a, p.Prefix, p.Qual.Dir)
}

// ipv4Host tests for an address in the headers of IPv4, ARP and RARP, or of one of them.
func (g *generator) ipv4Host(t syntax.Token, addr, mask uint32, q syntax.Qualifier) *block {
	switch q.Proto {
	case syntax.ProtoIP:
		return g.ipv4Field(t, addr, mask, q.Dir, EtherIP, 12, 16)
	case syntax.ProtoARP:
		return g.ipv4Field(t, addr, mask, q.Dir, EtherARP, 14, 24)
	case syntax.ProtoRARP:
		return g.ipv4Field(t, addr, mask, q.Dir, EtherRARP, 14, 24)
	}
	q.Proto = syntax.ProtoIP
	ip := g.ipv4Host(t, addr, mask, q)
	if g.labels > 0 {
		return ip
	}
	q.Proto = syntax.ProtoARP
	arp := or(ip, g.ipv4Host(t, addr, mask, q))
	q.Proto = syntax.ProtoRARP
	return or(arp, g.ipv4Host(t, addr, mask, q))
}

// ipv4Field tests for an address in the header of the frame type typ, where src and dst are the
// offsets of the addresses.
func (g *generator) ipv4Field(t syntax.Token, addr, mask uint32, d syntax.Direction, typ, src, dst uint32) *block {
	return directed(d, func(source bool) *block {
		at := dst
		if source {
			at = src
		}
		link := g.linkIs(t, typ)
		return and(link, g.masked(field{fromNetwork, at}, SizeW, addr, mask))
	})
}

// ipv6Host tests for the four words of an address, the last word first.
func (g *generator) ipv6Host(t syntax.Token, a netip.Addr, prefix int, d syntax.Direction) *block {
	return directed(d, func(source bool) *block {
		at := uint32(24)
		if source {
			at = 8
		}
		v := a.As16()
		var b *block
		for word := 3; word >= 0; word-- {
			var k uint32
			for _, c := range v[4*word : 4*word+4] {
				k = k<<8 | uint32(c)
			}
			bits := min(max(prefix-32*word, 0), 32)
			b = and(g.masked(field{fromNetwork, at + 4*uint32(word)}, SizeW, k, ^uint32(0)<<(32-bits)), b)
		}
		return and(g.linkIs(t, EtherIP6), b)
	})
}

// isIn tests whether a field is in a set.
func (g *generator) isIn(p *syntax.Primitive, f field, size int) *block {
	return newBlock(Jeq, 1, g.load(f, size|In(p.Set))...)
}

// addressIn tests whether an address is in a set, in the headers where host looks for one.
func (g *generator) addressIn(p *syntax.Primitive) (b *block) {
	for _, h := range []struct {
		proto    syntax.Proto
		typ      uint32
		size     int
		src, dst uint32
		possible bool
	}{
		{syntax.ProtoIP, EtherIP, SizeW, 12, 16, p.IPv4},
		{syntax.ProtoARP, EtherARP, SizeW, 14, 24, p.IPv4 && g.labels == 0},
		{syntax.ProtoRARP, EtherRARP, SizeW, 14, 24, p.IPv4 && g.labels == 0},
		{syntax.ProtoIP6, EtherIP6, SizeAddress6, 8, 24, p.IPv6},
	} {
		if named := p.Qual.Proto; !h.possible || named != syntax.ProtoNone && named != h.proto {
			continue
		}
		b = or(b, directed(p.Qual.Dir, func(source bool) *block {
			at := h.dst
			if source {
				at = h.src
			}
			return and(g.linkIs(p.At, h.typ), g.isIn(p, field{fromNetwork, at}, h.size))
		}))
	}
	if b == nil {
		return always(false)
	}
	return b
}

// directed combines the tests of source and destination for a direction.
func directed(d syntax.Direction, test func(source bool) *block) *block {
	switch d {
	case syntax.DirSrc:
		return test(true)
	case syntax.DirDst:
		return test(false)
	}
	src := test(true)
	dst := test(false)
	if d == syntax.DirAnd {
		return and(src, dst)
	}
	return or(src, dst)
}

// decnet tests for a DECnet Phase IV address. A routing header has a short and a long form, and
// either may have padding in front.
func (g *generator) decnet(t syntax.Token, addr uint32, d syntax.Direction) *block {
	k := addr>>8&0xff | addr<<8&0xff00 // little-endian on the wire
	return directed(d, func(source bool) *block {
		short, long := uint32(1), uint32(7)
		if source {
			short, long = 3, 15
		}
		link := g.linkIs(t, EtherDECNET)
		form := func(flags, mask uint32, size int, at uint32) *block {
			f := g.masked(field{fromNetwork, 2}, size, flags, mask)
			return and(f, g.equal(field{fromNetwork, at}, SizeH, k))
		}
		b := form(0x8106, 0xff07, SizeH, 3+long)
		b = or(form(0x06, 0x07, SizeB, 2+long), b)
		b = or(form(0x8102, 0xff07, SizeH, 3+short), b)
		b = or(form(0x02, 0x07, SizeB, 2+short), b)
		return and(link, b)
	})
}
