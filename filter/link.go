package filter

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// pppTypes are PPP's numbers for some Ethernet types and access points (RFC 1661 and followers). Others stay as they are.
var pppTypes = map[uint32]uint32{wire.EtherIP: 0x21, wire.EtherIP6: 0x57, wire.EtherDECNET: 0x27, wire.EtherATALK: 0x29, wire.EtherNS: 0x25,
	wire.SAPISO: 0x23, wire.SAPSTP: 0x31, wire.SAPIPX: 0x2b}

// linkIs tests for a protocol right behind the link header.
func (g *generator) linkIs(t token, typ uint32) *block {
	switch {
	case g.labels > 0:
		return g.labelIs(t, typ)
	case g.link == linkPPP:
		if p, ok := pppTypes[typ]; ok {
			typ = p
		}
		return g.equal(field{fromType, 0}, cbpf.SizeH, typ)
	}
	is8023 := func() *block { return not(g.compare(field{fromType, 0}, cbpf.SizeH, cbpf.OpJgt, wire.MaxLength)) }
	switch typ {
	case wire.SAPISO, wire.SAPIP, wire.SAPNETBEUI:
		length := is8023()
		return and(length, g.equal(field{fromLLC, 0}, cbpf.SizeH, typ<<8|typ))
	case wire.SAPIPX:
		b := g.equal(field{fromLLC, 0}, cbpf.SizeB, wire.SAPIPX)
		b = or(b, g.equal(field{fromLLC, 0}, cbpf.SizeH, 0xffff))
		b = or(g.snap(0, wire.EtherIPX), b)
		b = and(is8023(), b)
		return or(g.equal(field{fromType, 0}, cbpf.SizeH, wire.EtherIPX), b)
	case wire.EtherATALK:
		b := and(is8023(), g.snap(0x080007, typ))
		return or(g.equal(field{fromType, 0}, cbpf.SizeH, typ), b)
	case wire.EtherAARP:
		b := and(is8023(), g.snap(0, typ))
		return or(g.equal(field{fromType, 0}, cbpf.SizeH, typ), b)
	}
	if typ <= wire.MaxLength {
		length := is8023()
		return and(length, g.equal(field{fromType, 2}, cbpf.SizeB, typ))
	}
	return g.equal(field{fromType, 0}, cbpf.SizeH, typ)
}

// labelIs guesses what follows the bottom MPLS label by its first four bits.
func (g *generator) labelIs(t token, typ uint32) *block {
	version := uint32(0x40)
	switch typ {
	case wire.EtherIP:
	case wire.EtherIP6:
		version = 0x60
	default:
		fail(t, "", "behind an MPLS label only IPv4 and IPv6 can be told")
	}
	bottom := g.masked(field{fromNetwork, ^uint32(1)}, cbpf.SizeB, 1, 1) // -2: the label's third byte
	return and(bottom, g.masked(field{fromNetwork, 0}, cbpf.SizeB, version, 0xf0))
}

func (g *generator) snap(org, typ uint32) *block {
	return g.bytes(field{fromLLC, 0}, []byte{wire.SAPSNAP, wire.SAPSNAP, 3, byte(org >> 16), byte(org >> 8), byte(org), byte(typ >> 8), byte(typ)})
}

// ethernet is put before tests of MAC addresses behind a Geneve header, whose payload may be something else. The addresses are
// there if the link header is not as long as nothing.
func (g *generator) ethernet(b *block) *block {
	if !g.previous {
		return b
	}
	check := newBlock(cbpf.ClassJMP|cbpf.OpJeq|cbpf.SrcX, 0, op(cbpf.LdMem, uint32(g.linkhdr.slot)), op(cbpf.LdxMem, uint32(g.payload.slot)))
	return and(not(check), b)
}

func (g *generator) mac(mac []byte, d direction) *block {
	switch d {
	case dirSrc:
		return g.bytes(field{fromLink, 6}, mac)
	case dirDst:
		return g.bytes(field{fromLink, 0}, mac)
	}
	src := g.mac(mac, dirSrc)
	dst := g.mac(mac, dirDst)
	if d == dirAnd {
		return and(src, dst)
	}
	return or(src, dst)
}

func (g *generator) wantEthernet(t token) {
	if g.link != linkEthernet {
		fail(t, "put it before pppoes", "there is no Ethernet header inside PPP")
	}
}

func (g *generator) broadcast(s *special) *block {
	switch s.proto {
	case protoNone, protoLink:
		g.wantEthernet(s.at)
		return g.ethernet(g.mac([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, dirDst))
	case protoIP:
		if !g.hasMask {
			fail(s.at, "capture on an interface that has an IPv4 address, or write ether broadcast",
				"the interface's netmask is not known")
		}
		ip := g.linkIs(s.at, wire.EtherIP)
		host := ^g.netmask
		zeros := g.masked(field{fromNetwork, 16}, cbpf.SizeW, 0, host)
		return and(ip, or(zeros, g.masked(field{fromNetwork, 16}, cbpf.SizeW, host, host)))
	}
	fail(s.at, "write ether broadcast or ip broadcast", "only Ethernet and IPv4 have broadcasts")
	return nil
}

func (g *generator) multicast(s *special) *block {
	switch s.proto {
	case protoNone, protoLink:
		g.wantEthernet(s.at)
		return g.ethernet(newBlock(cbpf.ClassJMP|cbpf.OpJset, 1, g.load(field{fromLink, 0}, cbpf.SizeB)...))
	case protoIP:
		ip := g.linkIs(s.at, wire.EtherIP)
		return and(ip, g.compare(field{fromNetwork, 16}, cbpf.SizeB, cbpf.OpJge, 224))
	case protoIP6:
		ip := g.linkIs(s.at, wire.EtherIP6)
		return and(ip, g.equal(field{fromNetwork, 24}, cbpf.SizeB, 255))
	}
	fail(s.at, "write ether, ip or ip6 multicast", "only Ethernet, IPv4 and IPv6 have multicasts")
	return nil
}

// llcTypes are control fields of 802.2 with the mask of their bits.
var llcTypes = map[string]struct{ value, mask uint32 }{
	"s": {1, 3}, "u": {3, 3}, "rr": {1, 0x0f}, "rnr": {5, 0x0f}, "rej": {9, 0x0f}, "ui": {0x03, 0xef}, "ua": {0x63, 0xef},
	"disc": {0x43, 0xef}, "dm": {0x0f, 0xef}, "sabme": {0x6f, 0xef}, "test": {0xe3, 0xef}, "xid": {0xaf, 0xef},
	"frmr": {0x87, 0xef}}
