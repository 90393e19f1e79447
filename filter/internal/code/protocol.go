package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// linkTypes are the protocols that follow the link header, with their numbers there.
var linkTypes = map[syntax.Proto]uint32{syntax.ProtoIP: wire.EtherIP, syntax.ProtoARP: wire.EtherARP, syntax.ProtoRARP: wire.EtherRARP, syntax.ProtoATALK: wire.EtherATALK,
	syntax.ProtoAARP: wire.EtherAARP, syntax.ProtoDECNET: wire.EtherDECNET, syntax.ProtoSCA: wire.EtherSCA, syntax.ProtoLAT: wire.EtherLAT, syntax.ProtoMOPDL: wire.EtherMOPDL,
	syntax.ProtoMOPRC: wire.EtherMOPRC, syntax.ProtoIP6: wire.EtherIP6, syntax.ProtoISO: wire.SAPISO, syntax.ProtoSTP: wire.SAPSTP, syntax.ProtoIPX: wire.SAPIPX, syntax.ProtoNETBEUI: wire.SAPNETBEUI}

// above are the protocols inside another one. ProtoNone is either version of IP.
var above = map[syntax.Proto]struct {
	number uint32
	in     syntax.Proto
}{
	syntax.ProtoSCTP: {wire.IPSCTP, syntax.ProtoNone}, syntax.ProtoTCP: {wire.IPTCP, syntax.ProtoNone}, syntax.ProtoUDP: {wire.IPUDP, syntax.ProtoNone}, syntax.ProtoICMP: {wire.IPICMP, syntax.ProtoIP},
	syntax.ProtoIGMP: {wire.IPIGMP, syntax.ProtoIP}, syntax.ProtoIGRP: {wire.IPIGRP, syntax.ProtoIP}, syntax.ProtoPIM: {wire.IPPIM, syntax.ProtoNone}, syntax.ProtoVRRP: {wire.IPVRRP, syntax.ProtoIP},
	syntax.ProtoCARP: {wire.IPVRRP, syntax.ProtoIP}, syntax.ProtoICMP6: {wire.IPICMP6, syntax.ProtoIP6}, syntax.ProtoAH: {wire.IPAH, syntax.ProtoNone}, syntax.ProtoESP: {wire.IPESP, syntax.ProtoNone},
	syntax.ProtoESIS: {wire.ISOESIS, syntax.ProtoISO}, syntax.ProtoISIS: {wire.ISOISIS, syntax.ProtoISO}, syntax.ProtoCLNP: {wire.ISOCLNP, syntax.ProtoISO},
}

// isisTypes are the packet types of a word, in libpcap's order.
var isisTypes = map[syntax.Proto][]uint32{
	syntax.ProtoL1: {wire.ISISL1PSNP, wire.ISISL1CSNP, wire.ISISL1LSP, wire.ISISL1IIH, wire.ISISPTPIIH}, syntax.ProtoL2: {wire.ISISL2PSNP, wire.ISISL2CSNP, wire.ISISL2LSP, wire.ISISL2IIH, wire.ISISPTPIIH},
	syntax.ProtoIIH: {wire.ISISPTPIIH, wire.ISISL1IIH, wire.ISISL2IIH}, syntax.ProtoLSP: {wire.ISISL1LSP, wire.ISISL2LSP},
	syntax.ProtoSNP:  {wire.ISISL2PSNP, wire.ISISL1PSNP, wire.ISISL1CSNP, wire.ISISL2CSNP},
	syntax.ProtoCSNP: {wire.ISISL1CSNP, wire.ISISL2CSNP}, syntax.ProtoPSNP: {wire.ISISL1PSNP, wire.ISISL2PSNP},
}

// protocol tests for a protocol by its name alone.
func (g *generator) protocol(t syntax.Token, p syntax.Proto) *graph.Block {
	if typ, ok := linkTypes[p]; ok {
		return g.linkIs(t, typ)
	}
	if a, ok := above[p]; ok {
		return g.proto(t, a.number, a.in)
	}
	var b *graph.Block
	for _, typ := range isisTypes[p] {
		b = graph.Or(b, g.proto(t, typ, syntax.ProtoISIS))
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
		t.Fail("", "%d is neither an EtherType (above %d) nor an 802.2 access point (up to 255)", v, wire.MaxLength)
	}
}

// proto tests for a protocol's number inside another protocol. ProtoNone is either version of IP.
func (g *generator) proto(t syntax.Token, v uint32, in syntax.Proto) *graph.Block {
	switch in {
	case syntax.ProtoNone:
		ip := g.proto(t, v, syntax.ProtoIP)
		return graph.Or(ip, g.proto(t, v, syntax.ProtoIP6))
	case syntax.ProtoLink:
		checkMax(t, "EtherType", v, 0xffff)
		if g.link == linkEthernet && g.labels == 0 && v <= wire.MaxLength {
			accessPoint(t, v)
		}
		return g.linkIs(t, v)
	case syntax.ProtoIP:
		checkMax(t, "protocol number", v, 0xff)
		link := g.linkIs(t, wire.EtherIP)
		return graph.And(link, g.equal(field{fromNetwork, 9}, cbpf.SizeB, v))
	case syntax.ProtoIP6:
		checkMax(t, "protocol number", v, 0xff)
		// The protocol follows directly, or after a fragment header. Like libpcap, this does not
		// skip other extension headers.
		link := g.linkIs(t, wire.EtherIP6)
		fragment := g.equal(field{fromNetwork, 6}, cbpf.SizeB, wire.IPFragment)
		inner := graph.And(fragment, g.equal(field{fromNetwork, 40}, cbpf.SizeB, v))
		return graph.And(link, graph.Or(g.equal(field{fromNetwork, 6}, cbpf.SizeB, v), inner))
	case syntax.ProtoISO:
		checkMax(t, "ISO protocol number", v, 0xff)
		link := g.linkIs(t, wire.SAPISO)
		return graph.And(link, g.equal(field{fromNoSNAP, 0}, cbpf.SizeB, v))
	default: // syntax.ProtoISIS: package names refuses all others
		checkMax(t, "IS-IS packet type", v, 0x1f)
		isis := g.proto(t, wire.ISOISIS, syntax.ProtoISO)
		return graph.And(isis, g.equal(field{fromNoSNAP, 4}, cbpf.SizeB, v))
	}
}
