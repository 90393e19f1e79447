package code

import (
	"encoding/binary"
	"net/netip"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// primitive tests for an identifier.
func (g *generator) primitive(p *syntax.Primitive) *Block {
	switch p.Qual.Type {
	case syntax.AddrPort, syntax.AddrPortrange:
		b := g.ports(p, names.EtherIP)
		return Or(g.ports(p, names.EtherIP6), b)
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
		var b *Block
		for _, a := range p.Hosts {
			b = Or(b, g.address(p, a))
		}
		return b
	case p.Qual.Proto == syntax.ProtoDECNET:
		return g.decnet(p.At, p.Addr, p.Qual.Dir)
	}
	return g.ipv4Host(p.At, p.Addr, p.Netmask, p.Qual)
}

// address tests for one address of a host, or for an IPv6 network.
func (g *generator) address(p *syntax.Primitive, a netip.Addr) *Block {
	if a.Is4() {
		return g.ipv4Host(p.At, binary.BigEndian.Uint32(a.AsSlice()), ^uint32(0), p.Qual)
	}
	return g.ipv6Host(p.At, a, p.Prefix, p.Qual.Dir)
}

// ipv4Host tests for an address in the headers of IPv4, ARP and RARP, or of one of them.
func (g *generator) ipv4Host(t syntax.Token, addr, mask uint32, q syntax.Qualifier) *Block {
	switch q.Proto {
	case syntax.ProtoIP:
		return g.ipv4Field(t, addr, mask, q.Dir, names.EtherIP, 12, 16)
	case syntax.ProtoARP:
		return g.ipv4Field(t, addr, mask, q.Dir, names.EtherARP, 14, 24)
	case syntax.ProtoRARP:
		return g.ipv4Field(t, addr, mask, q.Dir, names.EtherRARP, 14, 24)
	}
	q.Proto = syntax.ProtoIP
	ip := g.ipv4Host(t, addr, mask, q)
	if g.labels > 0 {
		return ip
	}
	q.Proto = syntax.ProtoARP
	arp := Or(ip, g.ipv4Host(t, addr, mask, q))
	q.Proto = syntax.ProtoRARP
	return Or(arp, g.ipv4Host(t, addr, mask, q))
}

// ipv4Field tests for an address in the header of the frame type typ, where src and dst are the
// offsets of the addresses.
func (g *generator) ipv4Field(t syntax.Token, addr, mask uint32, d syntax.Direction, typ, src, dst uint32) *Block {
	return directed(d, func(source bool) *Block {
		at := dst
		if source {
			at = src
		}
		link := g.linkIs(t, typ)
		return And(link, g.masked(field{fromNetwork, at}, cbpf.SizeW, addr, mask))
	})
}

// ipv6Host tests for the four words of an address, the last word first.
func (g *generator) ipv6Host(t syntax.Token, a netip.Addr, prefix int, d syntax.Direction) *Block {
	return directed(d, func(source bool) *Block {
		at := uint32(24)
		if source {
			at = 8
		}
		v := a.As16()
		var b *Block
		for word := 3; word >= 0; word-- {
			var k uint32
			for _, c := range v[4*word : 4*word+4] {
				k = k<<8 | uint32(c)
			}
			bits := min(max(prefix-32*word, 0), 32)
			b = And(g.masked(field{fromNetwork, at + 4*uint32(word)}, cbpf.SizeW, k, ^uint32(0)<<(32-bits)), b)
		}
		return And(g.linkIs(t, names.EtherIP6), b)
	})
}

// directed combines the tests of source and destination for a direction.
func directed(d syntax.Direction, test func(source bool) *Block) *Block {
	switch d {
	case syntax.DirSrc:
		return test(true)
	case syntax.DirDst:
		return test(false)
	}
	src := test(true)
	dst := test(false)
	if d == syntax.DirAnd {
		return And(src, dst)
	}
	return Or(src, dst)
}

// decnet tests for a DECnet Phase IV address. A routing header has a short and a long form, and
// either may have padding in front.
func (g *generator) decnet(t syntax.Token, addr uint32, d syntax.Direction) *Block {
	k := addr>>8&0xff | addr<<8&0xff00 // little-endian on the wire
	return directed(d, func(source bool) *Block {
		short, long := uint32(1), uint32(7)
		if source {
			short, long = 3, 15
		}
		link := g.linkIs(t, names.EtherDECNET)
		form := func(flags, mask uint32, size int, at uint32) *Block {
			f := g.masked(field{fromNetwork, 2}, size, flags, mask)
			return And(f, g.equal(field{fromNetwork, at}, cbpf.SizeH, k))
		}
		b := form(0x8106, 0xff07, cbpf.SizeH, 3+long)
		b = Or(form(0x06, 0x07, cbpf.SizeB, 2+long), b)
		b = Or(form(0x8102, 0xff07, cbpf.SizeH, 3+short), b)
		b = Or(form(0x02, 0x07, cbpf.SizeB, 2+short), b)
		return And(link, b)
	})
}
