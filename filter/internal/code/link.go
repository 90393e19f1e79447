package code

import (
	"math/bits"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// pppTypes are PPP's numbers for some Ethernet types and access points (RFC 1661 and later).
// libpcap leaves all others unchanged.
var pppTypes = map[uint32]uint32{names.EtherIP: 0x21, names.EtherIP6: 0x57, names.EtherDECNET: 0x27, names.EtherATALK: 0x29, names.EtherNS: 0x25,
	names.SAPISO: 0x23, names.SAPSTP: 0x31, names.SAPIPX: 0x2b}

// linkIs tests for a protocol directly after the link header.
func (g *generator) linkIs(t syntax.Token, typ uint32) *Block {
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
	is8023 := func() *Block {
		if g.link == linkCooked {
			return g.equal(field{fromType, 0}, cbpf.SizeH, cookedLLC)
		}
		return Not(g.compare(field{fromType, 0}, cbpf.SizeH, cbpf.OpJgt, names.MaxLength))
	}
	switch typ {
	case names.SAPISO, names.SAPIP, names.SAPNETBEUI:
		length := is8023()
		return And(length, g.equal(field{fromLLC, 0}, cbpf.SizeH, typ<<8|typ))
	case names.SAPIPX:
		if g.link == linkCooked {
			b := Or(g.equal(field{fromLLC, 0}, cbpf.SizeB, names.SAPIPX), g.snap(0, names.EtherIPX))
			b = And(is8023(), b)
			b = Or(g.equal(field{fromType, 0}, cbpf.SizeH, cooked8023), b)
			return Or(g.equal(field{fromType, 0}, cbpf.SizeH, names.EtherIPX), b)
		}
		b := g.equal(field{fromLLC, 0}, cbpf.SizeB, names.SAPIPX)
		b = Or(b, g.equal(field{fromLLC, 0}, cbpf.SizeH, 0xffff))
		b = Or(g.snap(0, names.EtherIPX), b)
		b = And(is8023(), b)
		return Or(g.equal(field{fromType, 0}, cbpf.SizeH, names.EtherIPX), b)
	case names.EtherATALK:
		b := And(is8023(), g.snap(0x080007, typ))
		return Or(g.equal(field{fromType, 0}, cbpf.SizeH, typ), b)
	case names.EtherAARP:
		b := And(is8023(), g.snap(0, typ))
		return Or(g.equal(field{fromType, 0}, cbpf.SizeH, typ), b)
	}
	if typ <= names.MaxLength {
		length := is8023()
		return And(length, g.equal(field{fromLLC, 0}, cbpf.SizeB, typ))
	}
	return g.equal(field{fromType, 0}, cbpf.SizeH, typ)
}

// versionIs tests for a version of IP in packets that begin with the IP header. They have no other
// types.
func (g *generator) versionIs(typ uint32) *Block {
	switch typ {
	case names.EtherIP:
		return g.masked(field{fromLink, 0}, cbpf.SizeB, 0x40, 0xf0)
	case names.EtherIP6:
		return g.masked(field{fromLink, 0}, cbpf.SizeB, 0x60, 0xf0)
	}
	return always(false)
}

// familyIs tests for the address family of a version of IP, in either byte order. Tests support no
// other types of BSD's loopback.
func (g *generator) familyIs(typ uint32) *Block {
	var b *Block
	for _, family := range headers.Families[uint16(typ)] {
		b = Or(b, g.equal(field{fromLink, 0}, cbpf.SizeW, uint32(family)))
		b = Or(b, g.equal(field{fromLink, 0}, cbpf.SizeW, bits.ReverseBytes32(uint32(family))))
	}
	if b == nil {
		return always(false)
	}
	return b
}

// labelIs tests for a version of IP after the bottom MPLS label. Labels have no type field, so the
// test uses the first four bits after the label.
func (g *generator) labelIs(t syntax.Token, typ uint32) *Block {
	version := uint32(0x40)
	switch typ {
	case names.EtherIP:
	case names.EtherIP6:
		version = 0x60
	default:
		t.Fail("", "after an MPLS label, only IPv4 and IPv6 can be tested for")
	}
	const thirdByte = ^uint32(1) // of the label before the network header: -2
	bottom := g.masked(field{fromNetwork, thirdByte}, cbpf.SizeB, 1, 1)
	return And(bottom, g.masked(field{fromNetwork, 0}, cbpf.SizeB, version, 0xf0))
}

// snap tests for an LLC header with SNAP, an organisation and its protocol.
func (g *generator) snap(org, typ uint32) *Block {
	return g.bytes(field{fromLLC, 0}, []byte{names.SAPSNAP, names.SAPSNAP, 3, byte(org >> 16), byte(org >> 8), byte(org), byte(typ >> 8), byte(typ)})
}
