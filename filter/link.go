package filter

// Types of Ethernet frames (IEEE), and access points of 802.2.
const (
	etherNS       = 0x0600
	etherIP       = 0x0800
	etherARP      = 0x0806
	etherMOPDL    = 0x6001
	etherMOPRC    = 0x6002
	etherDECNET   = 0x6003
	etherLAT      = 0x6004
	etherSCA      = 0x6007
	etherTEB      = 0x6558
	etherRARP     = 0x8035
	etherATALK    = 0x809b
	etherAARP     = 0x80f3
	ether8021Q    = 0x8100
	etherIPX      = 0x8137
	etherIP6      = 0x86dd
	etherMPLS     = 0x8847
	etherPPPoED   = 0x8863
	etherPPPoES   = 0x8864
	ether8021AD   = 0x88a8
	etherLoopback = 0x9000
	etherQinQ     = 0x9100

	maxLength = 1500 // a type field up to this is a length, and 802.2 follows

	sapIP      = 0x06
	sapSTP     = 0x42
	sapSNAP    = 0xaa
	sapIPX     = 0xe0
	sapNETBEUI = 0xf0
	sapISO     = 0xfe
)

// pppTypes are PPP's numbers for some Ethernet types and access points (RFC 1661 and followers). Others stay as they are.
var pppTypes = map[uint32]uint32{etherIP: 0x21, etherIP6: 0x57, etherDECNET: 0x27, etherATALK: 0x29, etherNS: 0x25,
	sapISO: 0x23, sapSTP: 0x31, sapIPX: 0x2b}

const pppMPLS = 0x0281

// linkIs tests for a protocol right behind the link header.
func (g *generator) linkIs(t token, typ uint32) *block {
	switch {
	case g.labels > 0:
		return g.labelIs(t, typ)
	case g.link == linkPPP:
		if p, ok := pppTypes[typ]; ok {
			typ = p
		}
		return g.equal(field{fromType, 0}, sizeH, typ)
	}
	is8023 := func() *block { return not(g.compare(field{fromType, 0}, sizeH, opJgt, maxLength)) }
	switch typ {
	case sapISO, sapIP, sapNETBEUI:
		length := is8023()
		return and(length, g.equal(field{fromLLC, 0}, sizeH, typ<<8|typ))
	case sapIPX:
		b := g.equal(field{fromLLC, 0}, sizeB, sapIPX)
		b = or(b, g.equal(field{fromLLC, 0}, sizeH, 0xffff))
		b = or(g.snap(0, etherIPX), b)
		b = and(is8023(), b)
		return or(g.equal(field{fromType, 0}, sizeH, etherIPX), b)
	case etherATALK:
		b := and(is8023(), g.snap(0x080007, typ))
		return or(g.equal(field{fromType, 0}, sizeH, typ), b)
	case etherAARP:
		b := and(is8023(), g.snap(0, typ))
		return or(g.equal(field{fromType, 0}, sizeH, typ), b)
	}
	if typ <= maxLength {
		length := is8023()
		return and(length, g.equal(field{fromType, 2}, sizeB, typ))
	}
	return g.equal(field{fromType, 0}, sizeH, typ)
}

// labelIs guesses what follows the bottom MPLS label by its first four bits.
func (g *generator) labelIs(t token, typ uint32) *block {
	version := uint32(0x40)
	switch typ {
	case etherIP:
	case etherIP6:
		version = 0x60
	default:
		fail(t, "", "behind an MPLS label only IPv4 and IPv6 can be told")
	}
	bottom := g.masked(field{fromNetwork, ^uint32(1)}, sizeB, 1, 1) // -2: the label's third byte
	return and(bottom, g.masked(field{fromNetwork, 0}, sizeB, version, 0xf0))
}

func (g *generator) snap(org, typ uint32) *block {
	return g.bytes(field{fromLLC, 0}, []byte{sapSNAP, sapSNAP, 3, byte(org >> 16), byte(org >> 8), byte(org), byte(typ >> 8), byte(typ)})
}

// ethernet is put before tests of MAC addresses behind a Geneve header, whose payload may be something else. The addresses are
// there if the link header is not as long as nothing.
func (g *generator) ethernet(b *block) *block {
	if !g.previous {
		return b
	}
	check := newBlock(classJMP|opJeq|srcX, 0, op(insLdMem, uint32(g.linkhdr.slot)), op(insLdxMem, uint32(g.payload.slot)))
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
		ip := g.linkIs(s.at, etherIP)
		host := ^g.netmask
		zeros := g.masked(field{fromNetwork, 16}, sizeW, 0, host)
		return and(ip, or(zeros, g.masked(field{fromNetwork, 16}, sizeW, host, host)))
	}
	fail(s.at, "write ether broadcast or ip broadcast", "only Ethernet and IPv4 have broadcasts")
	return nil
}

func (g *generator) multicast(s *special) *block {
	switch s.proto {
	case protoNone, protoLink:
		g.wantEthernet(s.at)
		return g.ethernet(newBlock(classJMP|opJset, 1, g.load(field{fromLink, 0}, sizeB)...))
	case protoIP:
		ip := g.linkIs(s.at, etherIP)
		return and(ip, g.compare(field{fromNetwork, 16}, sizeB, opJge, 224))
	case protoIP6:
		ip := g.linkIs(s.at, etherIP6)
		return and(ip, g.equal(field{fromNetwork, 24}, sizeB, 255))
	}
	fail(s.at, "write ether, ip or ip6 multicast", "only Ethernet, IPv4 and IPv6 have multicasts")
	return nil
}

// llcTypes are control fields of 802.2 with the mask of their bits.
var llcTypes = map[string]struct{ value, mask uint32 }{
	"s": {1, 3}, "u": {3, 3}, "rr": {1, 0x0f}, "rnr": {5, 0x0f}, "rej": {9, 0x0f}, "ui": {0x03, 0xef}, "ua": {0x63, 0xef},
	"disc": {0x43, 0xef}, "dm": {0x0f, 0xef}, "sabme": {0x6f, 0xef}, "test": {0xe3, 0xef}, "xid": {0xaf, 0xef},
	"frmr": {0x87, 0xef}}
