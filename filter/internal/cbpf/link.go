package cbpf

import (
	"math/bits"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// pppTypes are PPP's numbers for some Ethernet types and access points (RFC 1661 and later).
// Other numbers stay unchanged, as in libpcap.
var pppTypes = map[uint32]uint32{EtherIP: PPPIP, EtherIP6: PPPIP6, EtherDECNET: 0x27, EtherATALK: 0x29, EtherNS: 0x25,
	SAPISO: 0x23, SAPSTP: 0x31, SAPIPX: 0x2b}

// linkIs tests for a protocol directly after the link header.
func (g *generator) linkIs(t syntax.Token, typ uint32) *block {
	switch {
	case g.labels > 0:
		return g.labelIs(t, typ)
	case g.link == linkPPP:
		if p, ok := pppTypes[typ]; ok {
			typ = p
		}
		return g.equal(field{fromType, 0}, SizeH, typ)
	case g.link == linkCooked2:
		return g.equal(field{fromType, 0}, SizeH, typ)
	case g.link == linkRaw:
		return g.versionIs(typ)
	case g.link == linkLoopback:
		return g.familyIs(typ)
	}
	const cooked8023, cookedLLC = 1, 4 // types in a cooked header
	is8023 := func() *block {
		if g.link == linkCooked {
			return g.equal(field{fromType, 0}, SizeH, cookedLLC)
		}
		return not(g.compare(field{fromType, 0}, SizeH, OpJgt, MaxLength))
	}
	switch typ {
	case SAPISO, SAPIP, SAPNETBEUI:
		length := is8023()
		return and(length, g.equal(field{fromLLC, 0}, SizeH, typ<<8|typ))
	case SAPIPX:
		if g.link == linkCooked {
			b := or(g.equal(field{fromLLC, 0}, SizeB, SAPIPX), g.snap(0, EtherIPX))
			b = and(is8023(), b)
			b = or(g.equal(field{fromType, 0}, SizeH, cooked8023), b)
			return or(g.equal(field{fromType, 0}, SizeH, EtherIPX), b)
		}
		b := g.equal(field{fromLLC, 0}, SizeB, SAPIPX)
		b = or(b, g.equal(field{fromLLC, 0}, SizeH, 0xffff))
		b = or(g.snap(0, EtherIPX), b)
		b = and(is8023(), b)
		return or(g.equal(field{fromType, 0}, SizeH, EtherIPX), b)
	case EtherATALK:
		b := and(is8023(), g.snap(0x080007, typ))
		return or(g.equal(field{fromType, 0}, SizeH, typ), b)
	case EtherAARP:
		b := and(is8023(), g.snap(0, typ))
		return or(g.equal(field{fromType, 0}, SizeH, typ), b)
	}
	if typ <= MaxLength {
		length := is8023()
		return and(length, g.equal(field{fromLLC, 0}, SizeB, typ))
	}
	return g.equal(field{fromType, 0}, SizeH, typ)
}

// versionIs tests for a version of IP in packets that begin with the IP header. They have no other
// types.
func (g *generator) versionIs(typ uint32) *block {
	switch typ {
	case EtherIP:
		return g.masked(field{fromLink, 0}, SizeB, 0x40, 0xf0)
	case EtherIP6:
		return g.masked(field{fromLink, 0}, SizeB, 0x60, 0xf0)
	}
	return always(false)
}

// familyIs tests for the address family of a version of IP, in either byte order. The other types
// of BSD's loopback are not supported.
func (g *generator) familyIs(typ uint32) *block {
	var b *block
	for _, family := range headers.Families[uint16(typ)] {
		b = or(b, g.equal(field{fromLink, 0}, SizeW, uint32(family)))
		b = or(b, g.equal(field{fromLink, 0}, SizeW, bits.ReverseBytes32(uint32(family))))
	}
	if b == nil {
		return always(false)
	}
	return b
}

// labelIs tests for a version of IP after the bottom MPLS label. Labels have no type field, so the
// test uses the first four bits after the label.
func (g *generator) labelIs(t syntax.Token, typ uint32) *block {
	version := uint32(0x40)
	switch typ {
	case EtherIP:
	case EtherIP6:
		version = 0x60
	default:
		t.Fail("", "after an MPLS label, only IPv4 and IPv6 can be tested for")
	}
	const thirdByte = ^uint32(1) // of the last label: the offset -2 from the network header
	bottom := g.masked(field{fromNetwork, thirdByte}, SizeB, 1, 1)
	return and(bottom, g.masked(field{fromNetwork, 0}, SizeB, version, 0xf0))
}

// snap tests for an LLC header with SNAP, an organisation and its protocol.
func (g *generator) snap(org, typ uint32) *block {
	return g.bytes(field{fromLLC, 0}, []byte{SAPSNAP, SAPSNAP, 3, byte(org >> 16), byte(org >> 8), byte(org), byte(typ >> 8), byte(typ)})
}
