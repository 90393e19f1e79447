package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// encap tests for a header of an encapsulation, and moves the offsets of all later tests in the
// filter's text past that header.
func (g *generator) encap(s *syntax.Special) *block {
	switch syntax.Encap(s.At.Num) {
	case syntax.EncapVLAN:
		return g.vlan(s)
	case syntax.EncapMPLS:
		return g.mpls(s)
	case syntax.EncapPPPoED:
		return g.linkIs(s.At, EtherPPPoED)
	case syntax.EncapPPPoES:
		return g.pppoes(s)
	case syntax.EncapVXLAN:
		return g.vxlan(s)
	default: // syntax.EncapGeneve
		return g.geneve(s)
	}
}

// checkArgument refuses a number that is too large for its header field.
func checkArgument(s *syntax.Special, most uint32) {
	if s.Arg > most {
		s.ArgAt.Fail("", "%s number is more than %d", s.At.Text, most)
	}
}

// vlan tests for a VLAN tag.
func (g *generator) vlan(s *syntax.Special) *block {
	if g.labels > 0 {
		s.At.Fail("", "there are no VLAN tags after an MPLS label")
	}
	g.requireEthernet(s.At)
	b := g.vlanType()
	if s.Has {
		checkArgument(s, 0xfff)
		b = and(b, g.masked(field{fromNetwork, 0}, SizeH, s.Arg, 0xfff))
	}
	g.payload.constant += 4
	g.linktype.constant += 4
	if g.linktype.stored { // the next header's type is now in the packet, at the end of the tag
		g.linktype = g.payload
		g.linktype.constant -= 2
	}
	return b
}

// vlanType tests for the types of VLAN tags.
func (g *generator) vlanType() *block {
	b := g.linkIs(syntax.Token{}, Ether8021Q)
	b = or(b, g.linkIs(syntax.Token{}, Ether8021AD))
	return or(b, g.linkIs(syntax.Token{}, EtherQinQ))
}

// mpls tests for an MPLS label.
func (g *generator) mpls(s *syntax.Special) *block {
	var b *block
	switch {
	case g.labels > 0: // the previous label is not the bottom of the stack
		b = g.masked(field{fromPrevLabel, 2}, SizeB, 0, 1)
	case g.link == linkPPP:
		b = g.linkIs(s.At, PPPMPLS)
	default:
		g.requireEthernet(s.At)
		b = g.linkIs(s.At, EtherMPLS)
	}
	if s.Has {
		checkArgument(s, 0xfffff)
		b = and(b, g.masked(field{fromNetwork, 0}, SizeW, s.Arg<<12, 0xfffff000))
	}
	g.toNetwork += 4
	g.labels++
	return b
}

// pppoes tests for a PPPoE session, and moves later tests to the PPP frame in it.
func (g *generator) pppoes(s *syntax.Special) *block {
	b := g.linkIs(s.At, EtherPPPoES)
	if s.Has {
		checkArgument(s, 0xffff)
		b = and(b, g.masked(field{fromNetwork, 0}, SizeW, s.Arg, 0xffff)) // the second half of the word
	}
	const pppoeHeader, pppProtocol = 6, 2 // bytes
	g.link, g.mayLackEthernet, g.carried = linkPPP, false, false
	g.linkhdr = g.payload
	g.linkhdr.constant += g.toNetwork + pppoeHeader
	g.linktype = g.linkhdr
	g.payload.constant = g.linkhdr.constant + pppProtocol
	g.toNetwork, g.toNetworkNoSNAP = 0, 0
	return b
}
