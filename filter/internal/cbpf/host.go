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
		return g.hostInSet(p)
	case p.At.Kind == syntax.KindEther:
		g.requireEthernet(p.At)
		return g.ifEthernet(g.mac(p.Ether[:], p.Qual.Dir))
	case len(p.Hosts) > 0:
		var b *block
		for _, a := range p.Hosts {
			if a.Is4() {
				b = or(b, g.ipv4Host(p, binary.BigEndian.Uint32(a.AsSlice()), ^uint32(0)))
			} else {
				b = or(b, g.ipv6Host(p, a))
			}
		}
		return b
	case p.Qual.Proto == syntax.ProtoDECNET:
		return g.decnet(p.At, p.Addr, p.Qual.Dir)
	}
	return g.ipv4Host(p, p.Addr, p.Netmask)
}

// addressHeaders are the headers in which the word host looks for IP addresses: the frame's type,
// and the offsets of the addresses.
var addressHeaders = []struct {
	proto         syntax.Proto
	typ, src, dst uint32
}{
	{syntax.ProtoIP, EtherIP, 12, 16},
	{syntax.ProtoARP, EtherARP, 14, 24},
	{syntax.ProtoRARP, EtherRARP, 14, 24},
	{syntax.ProtoIP6, EtherIP6, 8, 24},
}

// host tests for an address in the header that the qualifier names, or in all headers of one
// version of IP. compare makes the test of one address field.
func (g *generator) host(p *syntax.Primitive, ipv6 bool, compare func(field) *block) (b *block) {
	for _, h := range addressHeaders {
		isARP := h.proto == syntax.ProtoARP || h.proto == syntax.ProtoRARP
		isNamed := p.Qual.Proto == h.proto
		isImplied := p.Qual.Proto == syntax.ProtoNone && !(isARP && g.labels > 0) // MPLS carries no ARP
		if ipv6 != (h.proto == syntax.ProtoIP6) || !isNamed && !isImplied {
			continue
		}
		b = or(b, directed(p.Qual.Dir, h.src, h.dst, func(at uint32) *block {
			return and(g.linkIs(p.At, h.typ), compare(field{fromNetwork, at}))
		}))
	}
	return b
}

func (g *generator) ipv4Host(p *syntax.Primitive, addr, mask uint32) *block {
	return g.host(p, false, func(f field) *block { return g.masked(f, SizeW, addr, mask) })
}

// ipv6Host tests for the four words of an address or network, the last word first.
func (g *generator) ipv6Host(p *syntax.Primitive, a netip.Addr) *block {
	return g.host(p, true, func(f field) (b *block) {
		address := a.As16()
		for word := 3; word >= 0; word-- {
			at := f
			at.offset += uint32(4 * word)
			bits := min(max(p.Prefix-32*word, 0), 32)
			b = and(g.masked(at, SizeW, binary.BigEndian.Uint32(address[4*word:]), ^uint32(0)<<(32-bits)), b)
		}
		return b
	})
}

// hostInSet tests whether an address is in a set.
func (g *generator) hostInSet(p *syntax.Primitive) (b *block) {
	if p.IPv4 {
		b = g.host(p, false, func(f field) *block { return g.isIn(p, f, SizeW) })
	}
	if p.IPv6 {
		b = or(b, g.host(p, true, func(f field) *block { return g.isIn(p, f, SizeAddress6) }))
	}
	if b == nil {
		return always(false)
	}
	return b
}

// isIn tests whether a field is in a set.
func (g *generator) isIn(p *syntax.Primitive, f field, size int) *block {
	return newBlock(Jeq, 1, g.load(f, size|SetBits(p.Set))...)
}

// directed combines the tests of the source's and the destination's fields for a direction.
func directed[T any](d syntax.Direction, src, dst T, test func(T) *block) *block {
	switch d {
	case syntax.DirSrc:
		return test(src)
	case syntax.DirDst:
		return test(dst)
	}
	ofSource := test(src)
	ofDestination := test(dst)
	if d == syntax.DirAnd {
		return and(ofSource, ofDestination)
	}
	return or(ofSource, ofDestination)
}

// decnet tests for a DECnet Phase IV address. A routing header has a short and a long form, and
// either may have padding in front.
func (g *generator) decnet(t syntax.Token, addr uint32, d syntax.Direction) *block {
	type offsets struct{ short, long uint32 }     // in each form, without padding
	littleEndian := addr>>8&0xff | addr<<8&0xff00 // as on the wire
	return directed(d, offsets{3, 15}, offsets{1, 7}, func(at offsets) *block {
		link := g.linkIs(t, EtherDECNET)
		form := func(flags, mask uint32, size int, at uint32) *block {
			f := g.masked(field{fromNetwork, 2}, size, flags, mask)
			return and(f, g.equal(field{fromNetwork, at}, SizeH, littleEndian))
		}
		b := form(0x8106, 0xff07, SizeH, 3+at.long)
		b = or(form(0x06, 0x07, SizeB, 2+at.long), b)
		b = or(form(0x8102, 0xff07, SizeH, 3+at.short), b)
		b = or(form(0x02, 0x07, SizeB, 2+at.short), b)
		return and(link, b)
	})
}
