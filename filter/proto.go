package filter

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

var linkTypes = map[proto]uint32{protoIP: wire.EtherIP, protoARP: wire.EtherARP, protoRARP: wire.EtherRARP, protoATALK: wire.EtherATALK,
	protoAARP: wire.EtherAARP, protoDECNET: wire.EtherDECNET, protoSCA: wire.EtherSCA, protoLAT: wire.EtherLAT, protoMOPDL: wire.EtherMOPDL,
	protoMOPRC: wire.EtherMOPRC, protoIP6: wire.EtherIP6, protoISO: wire.SAPISO, protoSTP: wire.SAPSTP, protoIPX: wire.SAPIPX, protoNETBEUI: wire.SAPNETBEUI}

// above names protocols inside another one.
var above = map[proto]struct {
	number uint32
	in     proto
}{
	protoSCTP: {wire.IPSCTP, protoNone}, protoTCP: {wire.IPTCP, protoNone}, protoUDP: {wire.IPUDP, protoNone}, protoICMP: {wire.IPICMP, protoIP},
	protoIGMP: {wire.IPIGMP, protoIP}, protoIGRP: {wire.IPIGRP, protoIP}, protoPIM: {wire.IPPIM, protoNone}, protoVRRP: {wire.IPVRRP, protoIP},
	protoCARP: {wire.IPVRRP, protoIP}, protoICMP6: {wire.IPICMP6, protoIP6}, protoAH: {wire.IPAH, protoNone}, protoESP: {wire.IPESP, protoNone},
	protoESIS: {wire.ISOESIS, protoISO}, protoISIS: {wire.ISOISIS, protoISO}, protoCLNP: {wire.ISOCLNP, protoISO},
}

// isisTypes are the packet types a word stands for, in libpcap's order.
var isisTypes = map[proto][]uint32{
	protoL1: {wire.ISISL1PSNP, wire.ISISL1CSNP, wire.ISISL1LSP, wire.ISISL1IIH, wire.ISISPTPIIH}, protoL2: {wire.ISISL2PSNP, wire.ISISL2CSNP, wire.ISISL2LSP, wire.ISISL2IIH, wire.ISISPTPIIH},
	protoIIH: {wire.ISISPTPIIH, wire.ISISL1IIH, wire.ISISL2IIH}, protoLSP: {wire.ISISL1LSP, wire.ISISL2LSP},
	protoSNP:  {wire.ISISL2PSNP, wire.ISISL1PSNP, wire.ISISL1CSNP, wire.ISISL2CSNP},
	protoCSNP: {wire.ISISL1CSNP, wire.ISISL2CSNP}, protoPSNP: {wire.ISISL1PSNP, wire.ISISL2PSNP},
}

// protocol tests for a protocol by its name alone.
func (g *generator) protocol(t token, p proto) *block {
	if typ, ok := linkTypes[p]; ok {
		return g.linkIs(t, typ)
	}
	if a, ok := above[p]; ok {
		return g.proto(t, a.number, a.in)
	}
	var b *block
	for _, typ := range isisTypes[p] {
		here := g.proto(t, typ, protoISIS)
		if b != nil {
			here = or(b, here)
		}
		b = here
	}
	if b == nil {
		fail(t, "write ether host, ether proto or ether[...]", "the link layer alone is no test")
	}
	return b
}

// proto tests for a protocol's number inside another protocol; protoNone is either version of IP.
func (g *generator) proto(t token, v uint32, in proto) *block {
	switch in {
	case protoNone:
		ip := g.proto(t, v, protoIP)
		return or(ip, g.proto(t, v, protoIP6))
	case protoLink:
		return g.linkIs(t, v)
	case protoIP:
		link := g.linkIs(t, wire.EtherIP)
		return and(link, g.equal(field{fromNetwork, 9}, cbpf.SizeB, v))
	case protoIP6:
		// Directly, or behind a fragment header; other extension headers are not followed.
		link := g.linkIs(t, wire.EtherIP6)
		fragment := g.equal(field{fromNetwork, 6}, cbpf.SizeB, wire.IPFragment)
		inner := and(fragment, g.equal(field{fromNetwork, 40}, cbpf.SizeB, v))
		return and(link, or(g.equal(field{fromNetwork, 6}, cbpf.SizeB, v), inner))
	case protoISO:
		link := g.linkIs(t, wire.SAPISO)
		return and(link, g.equal(field{fromNoSNAP, 0}, cbpf.SizeB, v))
	default: // protoISIS; resolve lets no other pass
		isis := g.proto(t, wire.ISOISIS, protoISO)
		return and(isis, g.equal(field{fromNoSNAP, 4}, cbpf.SizeB, v))
	}
}
