package code

import (
	"math/bits"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
	"github.com/xdpcap/xdpcap/internal/link"
)

// pppTypes are PPP's numbers for some Ethernet types and access points (RFC 1661 and later).
// libpcap leaves all others unchanged.
var pppTypes = map[uint32]uint32{wire.EtherIP: 0x21, wire.EtherIP6: 0x57, wire.EtherDECNET: 0x27, wire.EtherATALK: 0x29, wire.EtherNS: 0x25,
	wire.SAPISO: 0x23, wire.SAPSTP: 0x31, wire.SAPIPX: 0x2b}

// linkIs tests for a protocol directly after the link header.
func (g *generator) linkIs(t syntax.Token, typ uint32) *graph.Block {
	switch {
	case g.labels > 0:
		return g.labelIs(t, typ)
	case g.link == linkPPP:
		if p, ok := pppTypes[typ]; ok {
			typ = p
		}
		return g.equal(field{fromType, 0}, cbpf.SizeH, typ)
	case g.link == linkCooked2:
		return g.equal(field{fromType, 0}, cbpf.SizeH, typ)
	case g.link == linkRaw:
		return g.versionIs(typ)
	case g.link == linkLoopback:
		return g.familyIs(typ)
	}
	const cooked8023, cookedLLC = 1, 4 // types in a cooked header
	is8023 := func() *graph.Block {
		if g.link == linkCooked {
			return g.equal(field{fromType, 0}, cbpf.SizeH, cookedLLC)
		}
		return graph.Not(g.compare(field{fromType, 0}, cbpf.SizeH, cbpf.OpJgt, wire.MaxLength))
	}
	switch typ {
	case wire.SAPISO, wire.SAPIP, wire.SAPNETBEUI:
		length := is8023()
		return graph.And(length, g.equal(field{fromLLC, 0}, cbpf.SizeH, typ<<8|typ))
	case wire.SAPIPX:
		if g.link == linkCooked {
			b := graph.Or(g.equal(field{fromLLC, 0}, cbpf.SizeB, wire.SAPIPX), g.snap(0, wire.EtherIPX))
			b = graph.And(is8023(), b)
			b = graph.Or(g.equal(field{fromType, 0}, cbpf.SizeH, cooked8023), b)
			return graph.Or(g.equal(field{fromType, 0}, cbpf.SizeH, wire.EtherIPX), b)
		}
		b := g.equal(field{fromLLC, 0}, cbpf.SizeB, wire.SAPIPX)
		b = graph.Or(b, g.equal(field{fromLLC, 0}, cbpf.SizeH, 0xffff))
		b = graph.Or(g.snap(0, wire.EtherIPX), b)
		b = graph.And(is8023(), b)
		return graph.Or(g.equal(field{fromType, 0}, cbpf.SizeH, wire.EtherIPX), b)
	case wire.EtherATALK:
		b := graph.And(is8023(), g.snap(0x080007, typ))
		return graph.Or(g.equal(field{fromType, 0}, cbpf.SizeH, typ), b)
	case wire.EtherAARP:
		b := graph.And(is8023(), g.snap(0, typ))
		return graph.Or(g.equal(field{fromType, 0}, cbpf.SizeH, typ), b)
	}
	if typ <= wire.MaxLength {
		length := is8023()
		return graph.And(length, g.equal(field{fromLLC, 0}, cbpf.SizeB, typ))
	}
	return g.equal(field{fromType, 0}, cbpf.SizeH, typ)
}

// versionIs tests for a version of IP in packets that begin with the IP header. They have no other
// types.
func (g *generator) versionIs(typ uint32) *graph.Block {
	switch typ {
	case wire.EtherIP:
		return g.masked(field{fromLink, 0}, cbpf.SizeB, 0x40, 0xf0)
	case wire.EtherIP6:
		return g.masked(field{fromLink, 0}, cbpf.SizeB, 0x60, 0xf0)
	}
	return always(false)
}

// familyIs tests for the address family of a version of IP, in either byte order. Tests support no
// other types of BSD's loopback.
func (g *generator) familyIs(typ uint32) *graph.Block {
	var b *graph.Block
	for _, family := range link.Families[uint16(typ)] {
		b = graph.Or(b, g.equal(field{fromLink, 0}, cbpf.SizeW, uint32(family)))
		b = graph.Or(b, g.equal(field{fromLink, 0}, cbpf.SizeW, bits.ReverseBytes32(uint32(family))))
	}
	if b == nil {
		return always(false)
	}
	return b
}

// labelIs tests for a version of IP after the bottom MPLS label. Labels have no type field, so the
// test uses the first four bits after the label.
func (g *generator) labelIs(t syntax.Token, typ uint32) *graph.Block {
	version := uint32(0x40)
	switch typ {
	case wire.EtherIP:
	case wire.EtherIP6:
		version = 0x60
	default:
		t.Fail("", "after an MPLS label, only IPv4 and IPv6 can be tested for")
	}
	const thirdByte = ^uint32(1) // of the label before the network header: -2
	bottom := g.masked(field{fromNetwork, thirdByte}, cbpf.SizeB, 1, 1)
	return graph.And(bottom, g.masked(field{fromNetwork, 0}, cbpf.SizeB, version, 0xf0))
}

// snap tests for an LLC header with SNAP, an organisation and its protocol.
func (g *generator) snap(org, typ uint32) *graph.Block {
	return g.bytes(field{fromLLC, 0}, []byte{wire.SAPSNAP, wire.SAPSNAP, 3, byte(org >> 16), byte(org >> 8), byte(org), byte(typ >> 8), byte(typ)})
}
