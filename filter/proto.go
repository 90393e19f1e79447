package filter

// Protocols of ISO (ISO/TR 9577), and packet types of IS-IS (ISO 10589).
const (
	isoCLNP = 129
	isoESIS = 130
	isoISIS = 131

	isisL1IIH  = 15
	isisL2IIH  = 16
	isisPTPIIH = 17
	isisL1LSP  = 18
	isisL2LSP  = 20
	isisL1CSNP = 24
	isisL2CSNP = 25
	isisL1PSNP = 26
	isisL2PSNP = 27
)

var linkTypes = map[proto]uint32{protoIP: etherIP, protoARP: etherARP, protoRARP: etherRARP, protoATALK: etherATALK,
	protoAARP: etherAARP, protoDECNET: etherDECNET, protoSCA: etherSCA, protoLAT: etherLAT, protoMOPDL: etherMOPDL,
	protoMOPRC: etherMOPRC, protoIP6: etherIP6, protoISO: sapISO, protoSTP: sapSTP, protoIPX: sapIPX, protoNETBEUI: sapNETBEUI}

// above names protocols inside another one.
var above = map[proto]struct {
	number uint32
	in     proto
}{
	protoSCTP: {ipSCTP, protoNone}, protoTCP: {ipTCP, protoNone}, protoUDP: {ipUDP, protoNone}, protoICMP: {ipICMP, protoIP},
	protoIGMP: {ipIGMP, protoIP}, protoIGRP: {ipIGRP, protoIP}, protoPIM: {ipPIM, protoNone}, protoVRRP: {ipVRRP, protoIP},
	protoCARP: {ipVRRP, protoIP}, protoICMP6: {ipICMP6, protoIP6}, protoAH: {ipAH, protoNone}, protoESP: {ipESP, protoNone},
	protoESIS: {isoESIS, protoISO}, protoISIS: {isoISIS, protoISO}, protoCLNP: {isoCLNP, protoISO},
}

// isisTypes are the packet types a word stands for, in libpcap's order.
var isisTypes = map[proto][]uint32{
	protoL1: {isisL1PSNP, isisL1CSNP, isisL1LSP, isisL1IIH, isisPTPIIH}, protoL2: {isisL2PSNP, isisL2CSNP, isisL2LSP, isisL2IIH, isisPTPIIH},
	protoIIH: {isisPTPIIH, isisL1IIH, isisL2IIH}, protoLSP: {isisL1LSP, isisL2LSP},
	protoSNP:  {isisL2PSNP, isisL1PSNP, isisL1CSNP, isisL2CSNP},
	protoCSNP: {isisL1CSNP, isisL2CSNP}, protoPSNP: {isisL1PSNP, isisL2PSNP},
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
		link := g.linkIs(t, etherIP)
		return and(link, g.equal(field{fromNetwork, 9}, sizeB, v))
	case protoIP6:
		// Directly, or behind a fragment header; other extension headers are not followed.
		link := g.linkIs(t, etherIP6)
		fragment := g.equal(field{fromNetwork, 6}, sizeB, ipFragment)
		inner := and(fragment, g.equal(field{fromNetwork, 40}, sizeB, v))
		return and(link, or(g.equal(field{fromNetwork, 6}, sizeB, v), inner))
	case protoISO:
		link := g.linkIs(t, sapISO)
		return and(link, g.equal(field{fromNoSNAP, 0}, sizeB, v))
	default: // protoISIS; resolve lets no other pass
		isis := g.proto(t, isoISIS, protoISO)
		return and(isis, g.equal(field{fromNoSNAP, 4}, sizeB, v))
	}
}
