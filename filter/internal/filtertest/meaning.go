package filtertest

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
	"github.com/xdpcap/xdpcap/internal/link"
)

// A Meaning is what an expression means: a walk over its tree decides about a packet. It makes no
// code, and shares nothing with the packages that do but the tree: programs are compared with it.
//
// Tests run from left to right. "and" and "or" leave out the right side if the left one decides. A
// test of bytes that the packet does not have ends the walk, and so does a division by 0: the
// packet does not match, not even under "not".
type Meaning struct {
	Link      link.Type
	Netmask   []byte // 4 bytes, or none
	Outbound  bool
	VLANAware bool

	tree syntax.Expr
}

// Parse reads the expression. The compiler must have taken it before.
func (m Meaning) Parse(text string) *Meaning {
	m.tree = syntax.Parse(text)
	names.Resolve(m.tree, Resolver{})
	return &m
}

// Matches tells whether a packet matches, whose length on the wire was wireLen.
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
	if m.VLANAware && m.Link == link.Ethernet && !namesVLAN(m.tree) {
		for shift < 8 && isTag(w.number(uint64(12+shift), 2)) {
			shift += 4
		}
	}
	w.place = outermost(m.Link, shift)
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

// endOfPacket is thrown by a test that the packet cannot answer.
const endOfPacket = "the packet ends before"

// A walk decides about one packet.
type walk struct {
	*Meaning
	pkt     []byte
	wireLen uint32
	place   place
}

// A place is where the next test of the text looks. vlan, mpls, pppoes, vxlan and geneve move it
// for all tests after them, whether they matched or not: it depends on the text alone. Only where
// the frame in a tunnel begins depends on the packet: in one without the tunnel, where no bytes are.
type place struct {
	kind              string // of the header before: ethernet, ppp, cooked, cooked2, raw
	header, typ, body uint64 // where that header, its type and what follows begin
	labels            int    // MPLS labels passed; body is behind them
	noEthernet        bool   // Geneve carries something else: then header and body are the same
	withoutSNAP       uint64 // from body to the header after 802.2
}

func outermost(l link.Type, shift uint32) place {
	switch l {
	case link.Cooked:
		return place{kind: "cooked", typ: 14, body: 16}
	case link.Cooked2:
		return place{kind: "cooked2", body: 20}
	case link.Raw:
		return place{kind: "raw"}
	}
	s := uint64(shift)
	return place{kind: "ethernet", typ: 12 + s, body: 14 + s, withoutSNAP: 3}
}

// number is the number of size bytes at a position of the packet.
func (w *walk) number(at uint64, size int) uint32 {
	if at+uint64(size) > uint64(len(w.pkt)) {
		panic(endOfPacket)
	}
	var v [4]byte
	copy(v[4-size:], w.pkt[at:])
	return binary.BigEndian.Uint32(v[:])
}

// link is a number in the header before; net is one behind it and its labels.
func (w *walk) link(offset uint64, size int) uint32 { return w.number(w.place.header+offset, size) }
func (w *walk) net(offset uint64, size int) uint32  { return w.number(w.place.body+offset, size) }
func (w *walk) typeField() uint32                   { return w.number(w.place.typ, 2) }

// ipv4Body is where the header behind an IPv4 header begins.
func (w *walk) ipv4Body() uint64 { return w.place.body + uint64(w.net(0, 1)&0xf*4) }

// expr walks a part of the tree. If live is false, its result does not count and only its moves do.
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

// relation compares two calculations. The headers that they read must be there.
func (w *walk) relation(r *syntax.Relation) bool {
	if !w.present(r.X) || !w.present(r.Y) {
		return false
	}
	x := w.calculate(r.X)
	y := w.calculate(r.Y)
	switch r.At.Num {
	case '>':
		return x > y
	case '<':
		return x < y
	case '=':
		return x == y
	case syntax.SymGE:
		return x >= y
	case syntax.SymLE:
		return x <= y
	default:
		return x != y
	}
}

// present tells whether the packet has the headers that a calculation reads.
func (w *walk) present(a syntax.Arith) bool {
	switch a := a.(type) {
	case *syntax.Minus:
		return w.present(a.X)
	case *syntax.Operation:
		return w.present(a.X) && w.present(a.Y)
	case *syntax.Load:
		switch a.Proto {
		case syntax.ProtoLink:
			return w.present(a.Offset)
		case syntax.ProtoICMP6:
			return w.present(a.Offset) && w.linkIs(0x86dd) && w.net(6, 1) == 58
		case syntax.ProtoIP, syntax.ProtoARP, syntax.ProtoRARP, syntax.ProtoATALK, syntax.ProtoDECNET, syntax.ProtoSCA,
			syntax.ProtoLAT, syntax.ProtoMOPRC, syntax.ProtoMOPDL, syntax.ProtoIP6:
			return w.present(a.Offset) && w.protocol(a.Proto)
		}
		return w.linkIs(0x800) && w.present(a.Offset) && w.protocol(a.Proto) && w.firstFragment()
	}
	return true
}

// calculate is the value of a calculation whose headers are there.
func (w *walk) calculate(a syntax.Arith) uint32 {
	switch a := a.(type) {
	case *syntax.Constant:
		return a.Value
	case *syntax.Length:
		return w.wireLen
	case *syntax.Minus:
		return -w.calculate(a.X)
	case *syntax.Load:
		at := uint64(w.calculate(a.Offset))
		switch a.Proto {
		case syntax.ProtoLink:
			at += w.place.header
		case syntax.ProtoICMP6:
			at += w.place.body + 40
		case syntax.ProtoIP, syntax.ProtoARP, syntax.ProtoRARP, syntax.ProtoATALK, syntax.ProtoDECNET, syntax.ProtoSCA,
			syntax.ProtoLAT, syntax.ProtoMOPRC, syntax.ProtoMOPDL, syntax.ProtoIP6:
			at += w.place.body
		default:
			at += w.ipv4Body()
		}
		return w.number(at&0xffffffff, int(a.Bytes)) // an offset may be negative
	}
	o := a.(*syntax.Operation)
	x := w.calculate(o.X)
	y := w.calculate(o.Y)
	switch o.At.Num {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	case '&':
		return x & y
	case '|':
		return x | y
	case '^':
		return x ^ y
	case syntax.SymLSH:
		return x << y
	case syntax.SymRSH:
		return x >> y
	}
	if y == 0 {
		panic(endOfPacket)
	}
	if o.At.Num == '/' {
		return x / y
	}
	return x % y
}

func (w *walk) special(s *syntax.Special) bool {
	switch s.At.Kind {
	case syntax.KindDirection:
		outbound := w.Outbound
		switch w.Link {
		case link.Cooked:
			outbound = w.number(0, 2) == 4
		case link.Cooked2:
			outbound = w.number(10, 1) == 4
		}
		return outbound == (s.At.Num == 1)
	case syntax.KindLess:
		return w.wireLen <= s.Arg
	case syntax.KindGreater:
		return w.wireLen >= s.Arg
	case syntax.KindIfindex:
		return w.number(4, 4) == s.Arg
	case syntax.KindByte:
		v := w.number((w.place.header+uint64(s.Arg))&0xffffffff, 1)
		switch s.Op {
		case '=':
			return v == s.Value
		case '<':
			return v < s.Value
		case '>':
			return v > s.Value
		case '&':
			return v&s.Value != 0
		}
		return v|s.Value != 0
	case syntax.KindBroadcast:
		if s.Proto == syntax.ProtoIP {
			host := ^binary.BigEndian.Uint32(w.Netmask)
			return w.linkIs(0x800) && (w.net(16, 4)&host == 0 || w.net(16, 4)&host == host)
		}
		return !w.place.noEthernet && w.mac([]byte{255, 255, 255, 255, 255, 255}, 0)
	case syntax.KindMulticast:
		switch s.Proto {
		case syntax.ProtoIP:
			return w.linkIs(0x800) && w.net(16, 1) >= 224
		case syntax.ProtoIP6:
			return w.linkIs(0x86dd) && w.net(24, 1) == 255
		}
		return !w.place.noEthernet && w.link(0, 1)&1 == 1
	}
	return w.llc(strings.ToLower(s.Name))
}

// llc tells whether a frame has an 802.2 header, of a type: IEEE 802.2, 5.3 and 5.4.
func (w *walk) llc(name string) bool {
	header := w.place.body - 4*uint64(w.place.labels)
	if w.typeField() > 1500 || w.number(header, 2) == 0xffff {
		return false
	}
	if name == "" {
		return true
	}
	control := w.number(header+2, 1)
	unnumbered := control &^ 0x10 // without poll or final
	switch name {
	case "i":
		return control&1 == 0
	case "s":
		return control&3 == 1
	case "u":
		return control&3 == 3
	case "rr":
		return control&0xf == 1
	case "rnr":
		return control&0xf == 5
	case "rej":
		return control&0xf == 9
	case "ui":
		return unnumbered == 0x03
	case "ua":
		return unnumbered == 0x63
	case "disc":
		return unnumbered == 0x43
	case "dm":
		return unnumbered == 0x0f
	case "sabme":
		return unnumbered == 0x6f
	case "test":
		return unnumbered == 0xe3
	case "xid":
		return unnumbered == 0xaf
	}
	return unnumbered == 0x87 // frmr
}

// encap tests for a header that carries others, and moves behind it.
func (w *walk) encap(s *syntax.Special, live bool) (found bool) {
	p := &w.place
	argument := func(v uint32) bool { return !s.Has || v == s.Arg }
	switch syntax.Encap(s.At.Num) {
	case syntax.EncapVLAN:
		found = live && isTag(w.typeField()) && (!s.Has || argument(w.net(0, 2)&0xfff))
		p.typ, p.body = p.typ+4, p.body+4
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
			at = nowhere + p.body + 8
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
// number. It returns where that header begins.
func (w *walk) tunnel(port, mask, value uint32, s *syntax.Special, live bool) (at uint64, found bool) {
	if !live {
		return 0, false
	}
	is := func(udp uint64) bool {
		at = udp + 8
		return w.number(udp+2, 2) == port && w.number(at, 1)&mask == value && (!s.Has || w.number(at+4, 4)>>8 == s.Arg)
	}
	if w.linkIs(0x800) && w.net(9, 1) == 17 && w.firstFragment() && is(w.ipv4Body()) {
		return at, true
	}
	return at, w.linkIs(0x86dd) && w.net(6, 1) == 17 && is(w.place.body+40)
}

func (w *walk) primitive(p *syntax.Primitive) bool {
	switch {
	case p.Qual.Type == syntax.AddrPort, p.Qual.Type == syntax.AddrPortrange:
		return w.ports(p, 0x86dd) || w.ports(p, 0x800)
	case p.Qual.Type == syntax.AddrProto:
		return w.proto(p.Number, p.Qual.Proto)
	case p.Qual.Type == syntax.AddrProtochain:
		return p.Qual.Proto != syntax.ProtoIP6 && w.chain(p.Number, 0x800) || p.Qual.Proto != syntax.ProtoIP && w.chain(p.Number, 0x86dd)
	case p.At.Kind == syntax.KindEther:
		return !w.place.noEthernet && directed(p.Qual.Dir, func(source bool) bool {
			if source {
				return w.mac(p.Ether[:], 6)
			}
			return w.mac(p.Ether[:], 0)
		})
	case len(p.Hosts) > 0:
		for _, a := range p.Hosts {
			if a.Is4() && w.ipv4(binary.BigEndian.Uint32(a.AsSlice()), ^uint32(0), p.Qual) || a.Is6() && w.ipv6(a.As16(), p) {
				return true
			}
		}
		return false
	case p.Qual.Proto == syntax.ProtoDECNET:
		return w.decnet(p.Addr, p.Qual.Dir)
	}
	return w.ipv4(p.Addr, p.Netmask, p.Qual)
}

// directed is a test of the source, the destination, either or both.
func directed(d syntax.Direction, test func(source bool) bool) bool {
	switch d {
	case syntax.DirSrc:
		return test(true)
	case syntax.DirDst:
		return test(false)
	case syntax.DirAnd:
		return test(true) && test(false)
	}
	return test(true) || test(false)
}

func (w *walk) mac(address []byte, at uint64) bool {
	return w.link(at+2, 4) == binary.BigEndian.Uint32(address[2:]) && w.link(at, 2) == uint32(binary.BigEndian.Uint16(address))
}

func (w *walk) ipv4(address, mask uint32, q syntax.Qualifier) bool {
	in := func(etherType uint32, src, dst uint64) bool {
		return directed(q.Dir, func(source bool) bool {
			at := dst
			if source {
				at = src
			}
			return w.linkIs(etherType) && w.net(at, 4)&mask == address
		})
	}
	switch q.Proto {
	case syntax.ProtoIP:
		return in(0x800, 12, 16)
	case syntax.ProtoARP:
		return in(0x806, 14, 24)
	case syntax.ProtoRARP:
		return in(0x8035, 14, 24)
	}
	return in(0x800, 12, 16) || w.place.labels == 0 && (in(0x806, 14, 24) || in(0x8035, 14, 24))
}

func (w *walk) ipv6(address [16]byte, p *syntax.Primitive) bool {
	return directed(p.Qual.Dir, func(source bool) bool {
		at := uint64(24)
		if source {
			at = 8
		}
		if !w.linkIs(0x86dd) {
			return false
		}
		for word := range 4 {
			mask := ^uint32(0) << (32 - min(max(p.Prefix-32*word, 0), 32))
			if w.net(at+uint64(4*word), 4)&mask != binary.BigEndian.Uint32(address[4*word:]) {
				return false
			}
		}
		return true
	})
}

// decnet tests for an address of DECnet Phase IV, in the short and the long form of its header, with
// and without padding.
func (w *walk) decnet(address uint32, d syntax.Direction) bool {
	little := address>>8&0xff | address<<8&0xff00
	return directed(d, func(source bool) bool {
		short, long := uint64(1), uint64(7)
		if source {
			short, long = 3, 15
		}
		return w.linkIs(0x6003) &&
			(w.net(2, 1)&7 == 2 && w.net(2+short, 2) == little ||
				w.net(2, 2)&0xff07 == 0x8102 && w.net(3+short, 2) == little ||
				w.net(2, 1)&7 == 6 && w.net(2+long, 2) == little ||
				w.net(2, 2)&0xff07 == 0x8106 && w.net(3+long, 2) == little)
	})
}

func (w *walk) firstFragment() bool { return w.net(6, 2)&0x1fff == 0 }

// ports tests for ports over a version of IP.
func (w *walk) ports(p *syntax.Primitive, etherType uint32) bool {
	transports := []uint32{132, 6, 17}
	if p.Transport != syntax.ProtoNone {
		transports = []uint32{map[syntax.Proto]uint32{syntax.ProtoSCTP: 132, syntax.ProtoTCP: 6, syntax.ProtoUDP: 17}[p.Transport]}
	}
	if !w.linkIs(etherType) {
		return false
	}
	return slices.ContainsFunc(transports, func(transport uint32) bool {
		var body func() uint64
		if etherType == 0x800 {
			if w.net(9, 1) != transport || !w.firstFragment() {
				return false
			}
			body = w.ipv4Body
		} else {
			if w.net(6, 1) != transport {
				return false
			}
			body = func() uint64 { return w.place.body + 40 }
		}
		return directed(p.Qual.Dir, func(source bool) bool {
			at := body() + 2
			if source {
				at -= 2
			}
			port := w.number(at, 2)
			return p.Ports[0] <= port && port <= p.Ports[1]
		})
	})
}

// protocol tests for a protocol by its name alone.
func (w *walk) protocol(p syntax.Proto) bool {
	either := func(v uint32) bool { return w.proto(v, syntax.ProtoNone) }
	isis := func(types ...uint32) bool {
		return slices.ContainsFunc(types, func(v uint32) bool { return w.proto(v, syntax.ProtoISIS) })
	}
	switch p {
	case syntax.ProtoIP:
		return w.linkIs(0x800)
	case syntax.ProtoARP:
		return w.linkIs(0x806)
	case syntax.ProtoRARP:
		return w.linkIs(0x8035)
	case syntax.ProtoIP6:
		return w.linkIs(0x86dd)
	case syntax.ProtoATALK:
		return w.linkIs(0x809b)
	case syntax.ProtoAARP:
		return w.linkIs(0x80f3)
	case syntax.ProtoDECNET:
		return w.linkIs(0x6003)
	case syntax.ProtoSCA:
		return w.linkIs(0x6007)
	case syntax.ProtoLAT:
		return w.linkIs(0x6004)
	case syntax.ProtoMOPDL:
		return w.linkIs(0x6001)
	case syntax.ProtoMOPRC:
		return w.linkIs(0x6002)
	case syntax.ProtoISO:
		return w.linkIs(0xfe)
	case syntax.ProtoSTP:
		return w.linkIs(0x42)
	case syntax.ProtoIPX:
		return w.linkIs(0xe0)
	case syntax.ProtoNETBEUI:
		return w.linkIs(0xf0)
	case syntax.ProtoSCTP:
		return either(132)
	case syntax.ProtoTCP:
		return either(6)
	case syntax.ProtoUDP:
		return either(17)
	case syntax.ProtoPIM:
		return either(103)
	case syntax.ProtoAH:
		return either(51)
	case syntax.ProtoESP:
		return either(50)
	case syntax.ProtoICMP:
		return w.proto(1, syntax.ProtoIP)
	case syntax.ProtoIGMP:
		return w.proto(2, syntax.ProtoIP)
	case syntax.ProtoIGRP:
		return w.proto(9, syntax.ProtoIP)
	case syntax.ProtoVRRP, syntax.ProtoCARP:
		return w.proto(112, syntax.ProtoIP)
	case syntax.ProtoICMP6:
		return w.proto(58, syntax.ProtoIP6)
	case syntax.ProtoESIS:
		return w.proto(130, syntax.ProtoISO)
	case syntax.ProtoISIS:
		return w.proto(131, syntax.ProtoISO)
	case syntax.ProtoCLNP:
		return w.proto(129, syntax.ProtoISO)
	case syntax.ProtoL1:
		return isis(26, 24, 18, 15, 17)
	case syntax.ProtoL2:
		return isis(27, 25, 20, 16, 17)
	case syntax.ProtoIIH:
		return isis(17, 15, 16)
	case syntax.ProtoLSP:
		return isis(18, 20)
	case syntax.ProtoSNP:
		return isis(27, 26, 24, 25)
	case syntax.ProtoCSNP:
		return isis(24, 25)
	default: // syntax.ProtoPSNP
		return isis(26, 27)
	}
}

// proto tests for a protocol's number in a header.
func (w *walk) proto(v uint32, in syntax.Proto) bool {
	switch in {
	case syntax.ProtoNone:
		return w.proto(v, syntax.ProtoIP) || w.proto(v, syntax.ProtoIP6)
	case syntax.ProtoLink:
		return w.linkIs(v)
	case syntax.ProtoIP:
		return w.linkIs(0x800) && w.net(9, 1) == v
	case syntax.ProtoIP6:
		return w.linkIs(0x86dd) && (w.net(6, 1) == v || w.net(6, 1) == 44 && w.net(40, 1) == v)
	case syntax.ProtoISO:
		return w.linkIs(0xfe) && w.net(w.place.withoutSNAP, 1) == v
	}
	return w.proto(131, syntax.ProtoISO) && w.net(w.place.withoutSNAP+4, 1) == v
}

// chain tests for a protocol behind up to eight headers that have the protocol of the next one.
func (w *walk) chain(v, etherType uint32) bool {
	if !w.linkIs(etherType) {
		return false
	}
	skipped, at, next := []uint32{51}, w.ipv4Body, uint64(9)
	if etherType == 0x86dd {
		skipped, at, next = []uint32{51, 0, 43, 44, 60}, func() uint64 { return w.place.body + 40 }, 6
	}
	header := at()
	protocol := w.net(next, 1)
	for range 8 {
		if protocol == v || !slices.Contains(skipped, protocol) {
			break
		}
		length := (w.number(header+1, 1) + 1) * 8
		if protocol == 51 {
			length = (w.number(header+1, 1) + 2) * 4
		}
		protocol, header = w.number(header, 1), header+uint64(length)
	}
	return protocol == v
}

// linkIs tests for what follows the header before: an EtherType, or an access point of 802.2.
func (w *walk) linkIs(v uint32) bool {
	p := w.place
	switch {
	case p.labels > 0: // there is no type, but IP's own version
		version := uint32(4)
		if v == 0x86dd {
			version = 6
		}
		return w.number(p.body-2, 1)&1 == 1 && w.net(0, 1)>>4 == version
	case p.kind == "raw":
		switch v {
		case 0x800:
			return w.number(p.header, 1)>>4 == 4
		case 0x86dd:
			return w.number(p.header, 1)>>4 == 6
		}
		return false
	case p.kind == "cooked2":
		return w.typeField() == v
	case p.kind == "ppp":
		ppp := map[uint32]uint32{0x800: 0x21, 0x86dd: 0x57, 0x6003: 0x27, 0x809b: 0x29, 0x600: 0x25, 0xfe: 0x23, 0x42: 0x31, 0xe0: 0x2b}
		if n, ok := ppp[v]; ok {
			v = n
		}
		return w.typeField() == v
	}
	is8023 := func() bool {
		if p.kind == "cooked" {
			return w.typeField() == 4
		}
		return w.typeField() <= 1500
	}
	snap := func(organisation, v uint32) bool {
		return w.net(4, 4) == organisation<<16|v && w.net(0, 4) == 0xaaaa0300|organisation>>16
	}
	switch v {
	case 0x809b:
		return w.typeField() == v || is8023() && snap(0x080007, v)
	case 0x80f3:
		return w.typeField() == v || is8023() && snap(0, v)
	case 0xe0: // IPX
		if p.kind == "cooked" {
			return w.typeField() == 0x8137 || w.typeField() == 1 || is8023() && (w.net(0, 1) == 0xe0 || snap(0, 0x8137))
		}
		return w.typeField() == 0x8137 || is8023() && (snap(0, 0x8137) || w.net(0, 1) == 0xe0 || w.net(0, 2) == 0xffff)
	case wire.SAPISO, wire.SAPIP, wire.SAPNETBEUI:
		return is8023() && w.net(0, 2) == v<<8|v
	}
	if v <= 1500 {
		return is8023() && w.net(0, 1) == v
	}
	return w.typeField() == v
}
