package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// linkTypes are the protocols that follow the link header, with their numbers there.
var linkTypes = map[syntax.Proto]uint32{syntax.ProtoIP: EtherIP, syntax.ProtoARP: EtherARP, syntax.ProtoRARP: EtherRARP, syntax.ProtoATALK: EtherATALK,
	syntax.ProtoAARP: EtherAARP, syntax.ProtoDECNET: EtherDECNET, syntax.ProtoSCA: EtherSCA, syntax.ProtoLAT: EtherLAT, syntax.ProtoMOPDL: EtherMOPDL,
	syntax.ProtoMOPRC: EtherMOPRC, syntax.ProtoIP6: EtherIP6, syntax.ProtoISO: SAPISO, syntax.ProtoSTP: SAPSTP, syntax.ProtoIPX: SAPIPX, syntax.ProtoNETBEUI: SAPNETBEUI}

// above are the protocols in the payload of another one. ProtoNone stands for IPv4 and IPv6.
var above = map[syntax.Proto]struct {
	number uint32
	in     syntax.Proto
}{
	syntax.ProtoSCTP: {IPSCTP, syntax.ProtoNone}, syntax.ProtoTCP: {IPTCP, syntax.ProtoNone}, syntax.ProtoUDP: {IPUDP, syntax.ProtoNone}, syntax.ProtoICMP: {IPICMP, syntax.ProtoIP},
	syntax.ProtoIGMP: {IPIGMP, syntax.ProtoIP}, syntax.ProtoIGRP: {IPIGRP, syntax.ProtoIP}, syntax.ProtoPIM: {IPPIM, syntax.ProtoNone}, syntax.ProtoVRRP: {IPVRRP, syntax.ProtoIP},
	syntax.ProtoCARP: {IPVRRP, syntax.ProtoIP}, syntax.ProtoICMP6: {IPICMP6, syntax.ProtoIP6}, syntax.ProtoAH: {IPAH, syntax.ProtoNone}, syntax.ProtoESP: {IPESP, syntax.ProtoNone},
	syntax.ProtoESIS: {ISOESIS, syntax.ProtoISO}, syntax.ProtoISIS: {ISOISIS, syntax.ProtoISO}, syntax.ProtoCLNP: {ISOCLNP, syntax.ProtoISO},
}

// isisTypes are the packet types of IS-IS for each word, in libpcap's order.
var isisTypes = map[syntax.Proto][]uint32{
	syntax.ProtoL1: {ISISL1PSNP, ISISL1CSNP, ISISL1LSP, ISISL1IIH, ISISPTPIIH}, syntax.ProtoL2: {ISISL2PSNP, ISISL2CSNP, ISISL2LSP, ISISL2IIH, ISISPTPIIH},
	syntax.ProtoIIH: {ISISPTPIIH, ISISL1IIH, ISISL2IIH}, syntax.ProtoLSP: {ISISL1LSP, ISISL2LSP},
	syntax.ProtoSNP:  {ISISL2PSNP, ISISL1PSNP, ISISL1CSNP, ISISL2CSNP},
	syntax.ProtoCSNP: {ISISL1CSNP, ISISL2CSNP}, syntax.ProtoPSNP: {ISISL1PSNP, ISISL2PSNP},
}

// protocol tests for a protocol by its name alone.
func (g *generator) protocol(t syntax.Token, p syntax.Proto) *block {
	if typ, ok := linkTypes[p]; ok {
		return g.linkIs(t, typ)
	}
	if a, ok := above[p]; ok {
		return g.proto(t, a.number, a.in)
	}
	var b *block
	for _, typ := range isisTypes[p] {
		b = or(b, g.proto(t, typ, syntax.ProtoISIS))
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
		t.Fail("", "%d is neither an EtherType (above %d) nor an 802.2 access point (up to 255)", v, MaxLength)
	}
}

// proto tests for a protocol's number in the header of another protocol. ProtoNone stands for IPv4
// and IPv6.
func (g *generator) proto(t syntax.Token, v uint32, in syntax.Proto) *block {
	switch in {
	case syntax.ProtoNone:
		ip := g.proto(t, v, syntax.ProtoIP)
		return or(ip, g.proto(t, v, syntax.ProtoIP6))
	case syntax.ProtoLink:
		checkMax(t, "EtherType", v, 0xffff)
		if g.link == linkEthernet && g.labels == 0 && v <= MaxLength {
			accessPoint(t, v)
		}
		return g.linkIs(t, v)
	case syntax.ProtoIP:
		checkMax(t, "protocol number", v, 0xff)
		link := g.linkIs(t, EtherIP)
		return and(link, g.equal(field{fromNetwork, 9}, SizeB, v))
	case syntax.ProtoIP6:
		checkMax(t, "protocol number", v, 0xff)
		// The protocol follows directly, or after a fragment header. Like libpcap, this does not
		// skip other extension headers.
		link := g.linkIs(t, EtherIP6)
		fragment := g.equal(field{fromNetwork, 6}, SizeB, IPFragment)
		inner := and(fragment, g.equal(field{fromNetwork, 40}, SizeB, v))
		return and(link, or(g.equal(field{fromNetwork, 6}, SizeB, v), inner))
	case syntax.ProtoISO:
		checkMax(t, "ISO protocol number", v, 0xff)
		link := g.linkIs(t, SAPISO)
		return and(link, g.equal(field{fromNoSNAP, 0}, SizeB, v))
	default: // syntax.ProtoISIS: Resolve refuses all others
		checkMax(t, "IS-IS packet type", v, 0x1f)
		isis := g.proto(t, ISOISIS, syntax.ProtoISO)
		return and(isis, g.equal(field{fromNoSNAP, 4}, SizeB, v))
	}
}
