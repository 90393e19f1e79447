package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// A tunnel is a header over UDP that carries frames.
type tunnel struct {
	port        uint32
	flags, mask uint32 // of the header's first byte; 32 bits at byte 4 have the tunnel's number
}

// Geneve is RFC 8926, VXLAN is RFC 7348.
var (
	geneve = tunnel{port: GenevePort, flags: 0, mask: 0xc0}
	vxlan  = tunnel{port: VXLANPort, flags: 0x08, mask: 0xff}
)

// absent is the position of a tunnel's header in packets that do not have the tunnel. It is beyond
// the end of every packet, so later tests inside the tunnel fail.
const absent = 1 << 31

// tunnelSlot reserves a scratch word for a position, for the whole program. It is absent until a
// test stores one.
func (g *generator) tunnelSlot(t syntax.Token) uint32 {
	for i := range uint32(ScratchWords) {
		slot := ScratchWords - 1 - i
		if !g.touched[slot] {
			g.reserve(slot)
			g.begin = append(g.begin, op(LdImm, absent), op(St, slot))
			return slot
		}
	}
	t.Fail("", "the expression needs more than %d intermediate results", ScratchWords)
	return 0
}

// tunnelHeader tests for a tunnel over IPv4 and IPv6, and returns the position of its header.
func (g *generator) tunnelHeader(u tunnel, s *syntax.Special) (*block, offset) {
	at := offset{constant: g.payload.constant + g.toNetwork + 8, variable: true, slot: g.tunnelSlot(s.At)}
	v4 := g.isTunnel(u, s, EtherIP, fromIPv4Body)
	v4 = and(v4, always(true, append(g.ipv4Length(), op(Stx, at.slot))...))
	v6 := g.isTunnel(u, s, EtherIP6, fromIPv6Body)
	v6 = and(v6, always(true, append(g.ipv6Length(), op(Stx, at.slot))...))
	return or(v4, v6), at
}

// isTunnel tests for a tunnel's port, flags and number over one version of IP.
func (g *generator) isTunnel(u tunnel, s *syntax.Special, typ uint32, body from) *block {
	to := func(port uint32) *block {
		p := syntax.Primitive{At: s.At, Qual: syntax.Qualifier{Type: syntax.AddrPort, Dir: syntax.DirDst}, Meaning: syntax.Meaning{Ports: [2]uint32{port, port}}}
		return g.portsAfterIP(&p, typ, IPUDP)
	}
	b := to(u.port)
	if u == vxlan && g.VXLANPort != 0 {
		b = or(b, to(g.VXLANPort))
	}
	b = and(g.linkIs(s.At, typ), b)
	b = and(b, g.masked(field{body, 8}, SizeB, u.flags, u.mask))
	if s.Has {
		checkArgument(s, 0xffffff)
		b = and(b, g.masked(field{body, 12}, SizeW, s.Arg<<8, 0xffffff00))
	}
	return b
}

// enterFrame moves later tests into a frame that a tunnel carries.
func (g *generator) enterFrame(header, typ, payload offset) {
	g.link, g.linkhdr, g.linktype, g.payload = linkEthernet, header, typ, payload
	g.toNetwork, g.toNetworkNoSNAP, g.labels, g.carried = 0, snapLength, 0, false
}

// vxlan tests for VXLAN, whose header of 8 bytes carries Ethernet.
func (g *generator) vxlan(s *syntax.Special) *block {
	b, at := g.tunnelHeader(vxlan, s)
	g.enterFrame(at.plus(8), at.plus(8+12), at.plus(8+14))
	g.mayLackEthernet = false
	return b
}

// geneve tests for Geneve, whose header has a variable length, and carries Ethernet or another
// protocol. For another protocol, the type is that of the Geneve header, and the link header is
// empty: its position is the same as that of the payload.
func (g *generator) geneve(s *syntax.Special) *block {
	b, at := g.tunnelHeader(geneve, s)
	newOffset := func() offset { return offset{variable: true, slot: g.tunnelSlot(s.At)} }
	header, typ, payload := newOffset(), newOffset(), newOffset()
	positions := append(at.intoX(), op(Txa, 0), op(Add, at.constant+2), op(St, typ.slot),
		op(LdInd|SizeB, at.constant), op(And, 0x3f), op(Lsh, 2), op(AddX, 0), op(Add, at.constant+8),
		op(St, header.slot), op(St, payload.slot), op(LdInd|SizeH, at.constant+2))
	isEthernet := newBlock(Jeq, EtherTEB, positions...)
	ethernet := always(true, op(LdMem, header.slot), op(Add, 12), op(St, typ.slot),
		op(Add, 2), op(St, payload.slot))
	g.enterFrame(header, typ, payload)
	g.mayLackEthernet = true
	return and(b, or(and(isEthernet, ethernet), always(true)))
}
