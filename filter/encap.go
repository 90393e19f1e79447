package filter

import (
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// encap tests for a header that carries others, and moves the offsets of all tests behind it in the text.
func (g *generator) encap(s *special) *block {
	switch encap(s.at.num) {
	case encapVLAN:
		return g.vlan(s)
	case encapMPLS:
		return g.mpls(s)
	case encapPPPoED:
		return g.linkIs(s.at, wire.EtherPPPoED)
	case encapPPPoES:
		return g.pppoes(s)
	default:
		return g.geneve(s)
	}
}

func (s *special) limit(most uint32) {
	if s.arg > most {
		fail(s.nameToken, "", "%s number is more than %d", s.at.text, most)
	}
}

func (g *generator) vlan(s *special) *block {
	if g.labels > 0 {
		fail(s.at, "", "there are no VLAN tags behind an MPLS label")
	}
	g.wantEthernet(s.at)
	b := g.vlanType()
	if s.has {
		s.limit(0xfff)
		b = and(b, g.masked(field{fromNetwork, 0}, cbpf.SizeH, s.arg, 0xfff))
	}
	g.payload.constant += 4
	g.linktype.constant += 4
	return b
}

func (g *generator) vlanType() *block {
	b := g.linkIs(token{}, wire.Ether8021Q)
	b = or(b, g.linkIs(token{}, wire.Ether8021AD))
	return or(b, g.linkIs(token{}, wire.EtherQinQ))
}

func (g *generator) mpls(s *special) *block {
	var b *block
	switch {
	case g.labels > 0: // the label before is not the bottom one
		b = g.masked(field{fromPrevLabel, 2}, cbpf.SizeB, 0, 1)
	case g.link == linkPPP:
		b = g.linkIs(s.at, wire.PPPMPLS)
	default:
		b = g.linkIs(s.at, wire.EtherMPLS)
	}
	if s.has {
		s.limit(0xfffff)
		b = and(b, g.masked(field{fromNetwork, 0}, cbpf.SizeW, s.arg<<12, 0xfffff000))
	}
	g.nl += 4
	g.labels++
	return b
}

func (g *generator) pppoes(s *special) *block {
	b := g.linkIs(s.at, wire.EtherPPPoES)
	if s.has {
		s.limit(0xffff)
		b = and(b, g.masked(field{fromNetwork, 0}, cbpf.SizeW, s.arg, 0xffff))
	}
	g.link, g.previous = linkPPP, false
	g.linkhdr = g.payload
	g.linkhdr.constant += g.nl + 6
	g.linktype = g.linkhdr
	g.payload.constant = g.linkhdr.constant + 2
	g.nl, g.nosnap = 0, 0
	return b
}

// geneve tests for the UDP port and version of Geneve (RFC 8926), and computes the offsets of what it carries: its header has
// any length, so they go to scratch words.
func (g *generator) geneve(s *special) *block {
	v4 := g.geneveIn(s, wire.EtherIP, fromIPv4Body)
	v4 = and(v4, newBlock(cbpf.ClassJMP|cbpf.OpJeq|cbpf.SrcX, 0, append(g.ipv4Length(), op(cbpf.Txa, 0))...))
	v6 := g.geneveIn(s, wire.EtherIP6, fromIPv6Body)
	// Both leave the offset of the UDP header, less what is constant, in A and X. The test is always true.
	start := append(g.base(&g.payload), op(cbpf.LdImm, 40))
	if g.payload.variable {
		start = append(start, op(cbpf.ClassALU|cbpf.OpAdd|cbpf.SrcX, 0))
	}
	v6 = and(v6, newBlock(cbpf.ClassJMP|cbpf.OpJeq|cbpf.SrcX, 0, append(start, op(cbpf.Tax, 0))...))
	b := or(v4, v6)
	next := always(true)
	next.stmts = append(g.geneveOffsets(s.at), next.stmts...)
	b = and(b, next)
	g.previous, g.verbatim = true, true
	return b
}

func (g *generator) geneveIn(s *special, typ uint32, body from) *block {
	udp := &primitive{at: s.at, qual: qualifier{typ: addrPort, dir: dirDst}, transport: protoUDP, ports: [2]uint32{wire.GenevePort, wire.GenevePort}}
	b := g.ports(udp, typ)
	b = and(b, g.masked(field{body, 8}, cbpf.SizeB, 0, 0xc0))
	if s.has {
		s.limit(0xffffff)
		b = and(b, g.masked(field{body, 12}, cbpf.SizeW, s.arg<<8, 0xffffff00))
	}
	return b
}

// geneveOffsets stores the offsets of link header, type and payload. Where the payload is no Ethernet, the Geneve header itself
// is the link header: its protocol field is the type.
func (g *generator) geneveOffsets(t token) []*stmt {
	s := []*stmt{op(cbpf.ClassALU|cbpf.OpAdd, g.payload.constant+g.nl+8), op(cbpf.Tax, 0), op(cbpf.ClassALU|cbpf.OpAdd, 2)}
	g.linktype = offset{variable: true, slot: g.slot(t)}
	s = append(s, op(cbpf.ClassST, uint32(g.linktype.slot)),
		op(cbpf.ClassLD|cbpf.ModeIND|cbpf.SizeB, 0), op(cbpf.ClassALU|cbpf.OpAnd, 0x3f), op(cbpf.ClassALU|cbpf.OpMul, 4), op(cbpf.ClassALU|cbpf.OpAdd, 8),
		op(cbpf.ClassALU|cbpf.OpAdd|cbpf.SrcX, 0))
	g.linkhdr = offset{variable: true, slot: g.slot(t)}
	s = append(s, op(cbpf.ClassST, uint32(g.linkhdr.slot)), op(cbpf.ClassLD|cbpf.ModeIND|cbpf.SizeH, 2), op(cbpf.LdxMem, uint32(g.linkhdr.slot)))
	g.payload = offset{variable: true, slot: g.slot(t)}
	isEthernet, store := op(cbpf.Txa, 0), op(cbpf.ClassSTX, uint32(g.payload.slot))
	choose := op(cbpf.ClassJMP|cbpf.OpJeq, wire.EtherTEB)
	choose.jt, choose.jf = isEthernet, store
	g.link, g.nl = linkEthernet, 0
	return append(s, choose, isEthernet, op(cbpf.ClassALU|cbpf.OpAdd, 12), op(cbpf.ClassST, uint32(g.linktype.slot)), op(cbpf.ClassALU|cbpf.OpAdd, 2),
		op(cbpf.Tax, 0), store)
}

// llc tests for an 802.2 header and its kind of frame.
func (g *generator) llc(s *special) *block {
	g.wantEthernet(s.at)
	b := not(g.compare(field{fromType, 0}, cbpf.SizeH, cbpf.OpJgt, wire.MaxLength))
	b = and(b, not(g.equal(field{fromLLC, 0}, cbpf.SizeH, 0xffff)))
	if s.name == "" {
		return b
	}
	control := field{fromLLC, 2}
	name := strings.ToLower(s.name)
	if name == "i" {
		return and(b, not(newBlock(cbpf.ClassJMP|cbpf.OpJset, 1, g.load(control, cbpf.SizeB)...)))
	}
	typ, ok := llcTypes[name]
	if !ok {
		fail(s.nameToken, "one of i s u rr rnr rej ui ua disc dm sabme test xid frmr", "no such type of LLC frame")
	}
	return and(b, g.masked(control, cbpf.SizeB, typ.value, typ.mask))
}
