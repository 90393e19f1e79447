package filter

import (
	"net/netip"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

func (g *generator) primitive(p *primitive) *block {
	switch p.qual.typ {
	case addrPort, addrPortrange:
		b := g.ports(p, wire.EtherIP)
		return or(g.ports(p, wire.EtherIP6), b)
	case addrProto:
		return g.proto(p.at, p.number, p.qual.proto)
	}
	switch {
	case p.at.kind == kEther:
		g.wantEthernet(p.at)
		return g.ethernet(g.mac(p.ether[:], p.qual.dir))
	case len(p.hosts) > 0:
		var b *block
		for _, a := range p.hosts {
			here := g.address(p, a)
			if b != nil {
				here = or(b, here)
			}
			b = here
		}
		return b
	case p.qual.proto == protoDECNET:
		return g.decnet(p.at, p.addr, p.qual.dir)
	}
	return g.ipv4Host(p.at, p.addr, p.netm, p.qual)
}

// address tests for one address of a host, or for an IPv6 network.
func (g *generator) address(p *primitive, a netip.Addr) *block {
	if a.Is4() {
		return g.ipv4Host(p.at, ip4(a), ^uint32(0), p.qual)
	}
	return g.ipv6Host(p.at, a, p.prefix, p.qual.dir)
}

// ipv4Host tests addresses of IPv4, ARP and RARP headers.
func (g *generator) ipv4Host(t token, addr, mask uint32, q qualifier) *block {
	switch q.proto {
	case protoIP:
		return g.ipv4Field(t, addr, mask, q.dir, wire.EtherIP, 12, 16)
	case protoARP:
		return g.ipv4Field(t, addr, mask, q.dir, wire.EtherARP, 14, 24)
	case protoRARP:
		return g.ipv4Field(t, addr, mask, q.dir, wire.EtherRARP, 14, 24)
	}
	q.proto = protoIP
	ip := g.ipv4Host(t, addr, mask, q)
	if g.labels > 0 {
		return ip
	}
	q.proto = protoARP
	arp := or(ip, g.ipv4Host(t, addr, mask, q))
	q.proto = protoRARP
	return or(arp, g.ipv4Host(t, addr, mask, q))
}

func (g *generator) ipv4Field(t token, addr, mask uint32, d direction, typ, src, dst uint32) *block {
	return directed(d, func(source bool) *block {
		at := dst
		if source {
			at = src
		}
		link := g.linkIs(t, typ)
		return and(link, g.masked(field{fromNetwork, at}, cbpf.SizeW, addr, mask))
	})
}

// ipv6Host tests the four words of an address, the last first.
func (g *generator) ipv6Host(t token, a netip.Addr, prefix int, d direction) *block {
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
			here := g.masked(field{fromNetwork, at + 4*uint32(word)}, cbpf.SizeW, k, ^uint32(0)<<(32-bits))
			if b != nil {
				here = and(here, b)
			}
			b = here
		}
		return and(g.linkIs(t, wire.EtherIP6), b)
	})
}

// directed combines the tests of source and destination.
func directed(d direction, test func(source bool) *block) *block {
	switch d {
	case dirSrc:
		return test(true)
	case dirDst:
		return test(false)
	}
	src := test(true)
	dst := test(false)
	if d == dirAnd {
		return and(src, dst)
	}
	return or(src, dst)
}

// decnet tests for a DECnet Phase IV address in a routing header of either form, with and without padding in front.
func (g *generator) decnet(t token, addr uint32, d direction) *block {
	k := addr>>8&0xff | addr<<8&0xff00 // little-endian on the wire
	return directed(d, func(source bool) *block {
		short, long := uint32(1), uint32(7)
		if source {
			short, long = 3, 15
		}
		link := g.linkIs(t, wire.EtherDECNET)
		form := func(flags, mask uint32, size int, at uint32) *block {
			f := g.masked(field{fromNetwork, 2}, size, flags, mask)
			return and(f, g.equal(field{fromNetwork, at}, cbpf.SizeH, k))
		}
		b := form(0x8106, 0xff07, cbpf.SizeH, 3+long)
		b = or(form(0x06, 0x07, cbpf.SizeB, 2+long), b)
		b = or(form(0x8102, 0xff07, cbpf.SizeH, 3+short), b)
		b = or(form(0x02, 0x07, cbpf.SizeB, 2+short), b)
		return and(link, b)
	})
}
