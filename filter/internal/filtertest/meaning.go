package filtertest

import (
	"encoding/binary"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// A Meaning interprets an expression by a walk over its tree, as the reference for compiled
// programs. So it shares only the parser and the name resolution with the compiler.
//
// Tests run from left to right. "and" and "or" skip the right side if the left one decides. A test
// of bytes that the packet does not have ends the walk, and so does a division by 0: the packet
// does not match, not even under "not".
type Meaning struct {
	Link      headers.Link
	Netmask   []byte // 4 bytes, or nil
	Outbound  bool
	VLANAware bool
	Fragments bool
	Sets      map[string]Elements
	VXLANPort uint16

	tree syntax.Expr
}

// Parse parses the expression, which the compiler must have accepted before.
func (m Meaning) Parse(text string) *Meaning {
	m.tree = syntax.Parse(text)
	cbpf.Resolve(m.tree, Resolver{})
	return &m
}

// Matches reports whether a packet matches, whose length on the wire was wireLen.
func (m *Meaning) Matches(pkt []byte, wireLen uint32) (matches bool) {
	w := &walk{Meaning: m, pkt: pkt, wireLen: wireLen}
	defer func() {
		if r := recover(); r != nil && r != any(endOfPacket) {
			panic(r)
		}
	}()
	if m.tree == nil {
		return true
	}
	shift := uint32(0)
	if m.VLANAware && m.Link == headers.Ethernet && !namesVLAN(m.tree) {
		for shift < 8 && isTag(w.number(uint64(12+shift), 2)) {
			shift += 4
		}
	}
	w.place = outermost(m.Link, shift)
	w.packet = w.first(shift)
	return w.expr(m.tree, true)
}

func namesVLAN(x syntax.Expr) bool {
	switch x := x.(type) {
	case *syntax.Logical:
		return namesVLAN(x.X) || namesVLAN(x.Y)
	case *syntax.Negation:
		return namesVLAN(x.X)
	case *syntax.Special:
		return x.At.Kind == syntax.KindEncap && syntax.Encap(x.At.Num) == syntax.EncapVLAN
	}
	return false
}

func isTag(etherType uint32) bool {
	return etherType == 0x8100 || etherType == 0x88a8 || etherType == 0x9100
}

// nowhere is a position behind the end of all packets.
const nowhere = 1 << 31

// endOfPacket is the panic of a test whose bytes the packet does not have.
const endOfPacket = "the packet ends before"

// A walk interprets the expression for one packet.
type walk struct {
	*Meaning
	pkt     []byte
	wireLen uint32
	place   place
	packet  packet // the packet that contains place: see inner.go
}

// A place is the position of the next test of the text. vlan, mpls, pppoes, vxlan and geneve move
// it for all tests after them, whether they matched or not: it depends on the text alone. Only the
// position of the frame in a tunnel depends on the packet: without the tunnel it is nowhere.
type place struct {
	kind              string  // of the header before: ethernet, ppp, cooked, cooked2, raw, loopback
	header, typ, body uint64  // the position of that header, of its type and of its payload
	labels            int     // MPLS labels passed; body is behind them
	noEthernet        bool    // Geneve carries another protocol: then header and body are the same
	withoutSNAP       uint64  // from body to the header after 802.2
	given             *uint32 // the type of the packet inside, if it is not in the header before
	bare              bool    // the packet inside has no Ethernet header
}

func outermost(l headers.Link, shift uint32) place {
	switch l {
	case headers.Cooked:
		return place{kind: "cooked", typ: 14, body: 16}
	case headers.Cooked2:
		return place{kind: "cooked2", body: 20}
	case headers.Raw:
		return place{kind: "raw"}
	case headers.Loopback:
		return place{kind: "loopback", body: 4}
	}
	s := uint64(shift)
	return place{kind: "ethernet", typ: 12 + s, body: 14 + s, withoutSNAP: 3}
}

// number returns the number of size bytes at a position of the packet.
func (w *walk) number(at uint64, size int) uint32 {
	if at+uint64(size) > uint64(len(w.pkt)) {
		panic(endOfPacket)
	}
	var v [4]byte
	copy(v[4-size:], w.pkt[at:])
	return binary.BigEndian.Uint32(v[:])
}

// link returns a number in the header before; net returns one behind that header and its labels.
func (w *walk) link(offset uint64, size int) uint32 { return w.number(w.place.header+offset, size) }
func (w *walk) net(offset uint64, size int) uint32  { return w.number(w.place.body+offset, size) }

func (w *walk) typeField() uint32 {
	if w.place.given != nil {
		return *w.place.given
	}
	return w.number(w.place.typ, 2)
}

// ipv4Body returns the position of the header behind an IPv4 header.
func (w *walk) ipv4Body() uint64 { return w.place.body + uint64(w.net(0, 1)&0xf*4) }

// expr evaluates a part of the tree. If live is false, it only moves the place.
func (w *walk) expr(x syntax.Expr, live bool) bool {
	switch x := x.(type) {
	case *syntax.Logical:
		left := w.expr(x.X, live)
		right := w.expr(x.Y, live && left != x.Or)
		if x.Or {
			return left || right
		}
		return left && right
	case *syntax.Negation:
		return !w.expr(x.X, live) && live
	case *syntax.Inner:
		return live && w.inner(x.X)
	case *syntax.Special:
		if x.At.Kind == syntax.KindEncap {
			return w.encap(x, live)
		}
		return live && w.special(x)
	case *syntax.Primitive:
		return live && w.primitive(x)
	case *syntax.Protocol:
		return live && w.protocol(x.Proto)
	}
	return live && w.relation(x.(*syntax.Relation))
}

// encap tests for a header that carries others, and moves behind it.
func (w *walk) encap(s *syntax.Special, live bool) (found bool) {
	p := &w.place
	argument := func(v uint32) bool { return !s.Has || v == s.Arg }
	switch syntax.Encap(s.At.Num) {
	case syntax.EncapVLAN:
		found = live && isTag(w.typeField()) && (!s.Has || argument(w.net(0, 2)&0xfff))
		p.typ, p.body, p.given = p.typ+4, p.body+4, nil
	case syntax.EncapMPLS:
		switch {
		case !live:
		case p.labels > 0:
			found = w.number(p.body-2, 1)&1 == 0
		case p.kind == "ppp":
			found = w.linkIs(0x281)
		default:
			found = w.linkIs(0x8847)
		}
		found = found && (!s.Has || argument(w.net(0, 4)>>12))
		p.body, p.labels = p.body+4, p.labels+1
	case syntax.EncapPPPoED:
		found = live && w.linkIs(0x8863)
	case syntax.EncapPPPoES:
		found = live && w.linkIs(0x8864) && (!s.Has || argument(w.net(0, 4)&0xffff))
		at := p.body + 6
		*p = place{kind: "ppp", header: at, typ: at, body: at + 2}
	case syntax.EncapVXLAN:
		var at uint64
		if at, found = w.tunnel(4789, 0xff, 8, s, live); !found {
			at = nowhere + p.body%nowhere + 8 // also in a tunnel that is itself nowhere
		}
		*p = place{kind: "ethernet", header: at + 8, typ: at + 20, body: at + 22, withoutSNAP: 3}
	default:
		var at uint64
		inner := place{kind: "ethernet", header: nowhere, typ: nowhere, body: nowhere, withoutSNAP: 3, noEthernet: true}
		if at, found = w.tunnel(6081, 0xc0, 0, s, live); found {
			behind := at + 8 + uint64(w.number(at, 1)&0x3f*4)
			inner.header, inner.typ, inner.body = behind, at+2, behind
			if w.number(at+2, 2) == 0x6558 {
				inner.typ, inner.body, inner.noEthernet = behind+12, behind+14, false
			}
		}
		*p = inner
	}
	return found
}

// tunnel tests for a header over UDP, by the port, the bits of its first byte, and its 24-bit
// number. It returns the position of that header.
func (w *walk) tunnel(port, mask, value uint32, s *syntax.Special, live bool) (at uint64, found bool) {
	if !live {
		return 0, false
	}
	is := func(udp uint64) bool {
		at = udp + 8
		to := w.number(udp+2, 2)
		return (to == port || port == 4789 && w.VXLANPort != 0 && to == uint32(w.VXLANPort)) && w.number(at, 1)&mask == value && (!s.Has || w.number(at+4, 4)>>8 == s.Arg)
	}
	if w.linkIs(0x800) && w.net(9, 1) == 17 && w.firstFragment() && is(w.ipv4Body()) {
		return at, true
	}
	return at, w.linkIs(0x86dd) && w.net(6, 1) == 17 && is(w.place.body+40)
}
