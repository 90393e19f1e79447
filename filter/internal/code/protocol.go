package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// linkTypes are the protocols that follow the link header, with their numbers there.
var linkTypes = map[syntax.Proto]uint32{syntax.ProtoIP: names.EtherIP, syntax.ProtoARP: names.EtherARP, syntax.ProtoRARP: names.EtherRARP, syntax.ProtoATALK: names.EtherATALK,
	syntax.ProtoAARP: names.EtherAARP, syntax.ProtoDECNET: names.EtherDECNET, syntax.ProtoSCA: names.EtherSCA, syntax.ProtoLAT: names.EtherLAT, syntax.ProtoMOPDL: names.EtherMOPDL,
	syntax.ProtoMOPRC: names.EtherMOPRC, syntax.ProtoIP6: names.EtherIP6, syntax.ProtoISO: names.SAPISO, syntax.ProtoSTP: names.SAPSTP, syntax.ProtoIPX: names.SAPIPX, syntax.ProtoNETBEUI: names.SAPNETBEUI}

// above are the protocols inside another one. ProtoNone is either version of IP.
var above = map[syntax.Proto]struct {
	number uint32
	in     syntax.Proto
}{
	syntax.ProtoSCTP: {names.IPSCTP, syntax.ProtoNone}, syntax.ProtoTCP: {names.IPTCP, syntax.ProtoNone}, syntax.ProtoUDP: {names.IPUDP, syntax.ProtoNone}, syntax.ProtoICMP: {names.IPICMP, syntax.ProtoIP},
	syntax.ProtoIGMP: {names.IPIGMP, syntax.ProtoIP}, syntax.ProtoIGRP: {names.IPIGRP, syntax.ProtoIP}, syntax.ProtoPIM: {names.IPPIM, syntax.ProtoNone}, syntax.ProtoVRRP: {names.IPVRRP, syntax.ProtoIP},
	syntax.ProtoCARP: {names.IPVRRP, syntax.ProtoIP}, syntax.ProtoICMP6: {names.IPICMP6, syntax.ProtoIP6}, syntax.ProtoAH: {names.IPAH, syntax.ProtoNone}, syntax.ProtoESP: {names.IPESP, syntax.ProtoNone},
	syntax.ProtoESIS: {names.ISOESIS, syntax.ProtoISO}, syntax.ProtoISIS: {names.ISOISIS, syntax.ProtoISO}, syntax.ProtoCLNP: {names.ISOCLNP, syntax.ProtoISO},
}

// isisTypes are the packet types of a word, in libpcap's order.
var isisTypes = map[syntax.Proto][]uint32{
	syntax.ProtoL1: {names.ISISL1PSNP, names.ISISL1CSNP, names.ISISL1LSP, names.ISISL1IIH, names.ISISPTPIIH}, syntax.ProtoL2: {names.ISISL2PSNP, names.ISISL2CSNP, names.ISISL2LSP, names.ISISL2IIH, names.ISISPTPIIH},
	syntax.ProtoIIH: {names.ISISPTPIIH, names.ISISL1IIH, names.ISISL2IIH}, syntax.ProtoLSP: {names.ISISL1LSP, names.ISISL2LSP},
	syntax.ProtoSNP:  {names.ISISL2PSNP, names.ISISL1PSNP, names.ISISL1CSNP, names.ISISL2CSNP},
	syntax.ProtoCSNP: {names.ISISL1CSNP, names.ISISL2CSNP}, syntax.ProtoPSNP: {names.ISISL1PSNP, names.ISISL2PSNP},
}

// protocol tests for a protocol by its name alone.
func (g *generator) protocol(t syntax.Token, p syntax.Proto) *Block {
	if typ, ok := linkTypes[p]; ok {
		return g.linkIs(t, typ)
	}
	if a, ok := above[p]; ok {
		return g.proto(t, a.number, a.in)
	}
	var b *Block
	for _, typ := range isisTypes[p] {
		b = Or(b, g.proto(t, typ, syntax.ProtoISIS))
	}
	if b == nil {
		t.Fail("write ether host, ether proto or ether[...]", "the link layer alone is no test")
	}
	return b
}

// checkMax refuses a number that is too large for its field. Such a test would never match.
func checkMax(t syntax.Token, what string, v, limit uint32) {
	if v > limit {
		t.Fail("", "%s %d is more than %d", what, v, limit)
	}
}

// accessPoint refuses a number above 255, the largest access point of 802.2. Such a number is a
// frame's length, not an EtherType.
func accessPoint(t syntax.Token, v uint32) {
	if v > 0xff {
		t.Fail("", "%d is neither an EtherType (above %d) nor an 802.2 access point (up to 255)", v, names.MaxLength)
	}
}

// proto tests for a protocol's number inside another protocol. ProtoNone is either version of IP.
func (g *generator) proto(t syntax.Token, v uint32, in syntax.Proto) *Block {
	switch in {
	case syntax.ProtoNone:
		ip := g.proto(t, v, syntax.ProtoIP)
		return Or(ip, g.proto(t, v, syntax.ProtoIP6))
	case syntax.ProtoLink:
		checkMax(t, "EtherType", v, 0xffff)
		if g.link == linkEthernet && g.labels == 0 && v <= names.MaxLength {
			accessPoint(t, v)
		}
		return g.linkIs(t, v)
	case syntax.ProtoIP:
		checkMax(t, "protocol number", v, 0xff)
		link := g.linkIs(t, names.EtherIP)
		return And(link, g.equal(field{fromNetwork, 9}, cbpf.SizeB, v))
	case syntax.ProtoIP6:
		checkMax(t, "protocol number", v, 0xff)
		// The protocol follows directly, or after a fragment header. Like libpcap, this does not
		// skip other extension headers.
		link := g.linkIs(t, names.EtherIP6)
		fragment := g.equal(field{fromNetwork, 6}, cbpf.SizeB, names.IPFragment)
		inner := And(fragment, g.equal(field{fromNetwork, 40}, cbpf.SizeB, v))
		return And(link, Or(g.equal(field{fromNetwork, 6}, cbpf.SizeB, v), inner))
	case syntax.ProtoISO:
		checkMax(t, "ISO protocol number", v, 0xff)
		link := g.linkIs(t, names.SAPISO)
		return And(link, g.equal(field{fromNoSNAP, 0}, cbpf.SizeB, v))
	default: // syntax.ProtoISIS: package names refuses all others
		checkMax(t, "IS-IS packet type", v, 0x1f)
		isis := g.proto(t, names.ISOISIS, syntax.ProtoISO)
		return And(isis, g.equal(field{fromNoSNAP, 4}, cbpf.SizeB, v))
	}
}
