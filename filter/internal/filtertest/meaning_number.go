package filtertest

import (
	"encoding/binary"
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// relation compares two calculations. The headers that they read must be present.
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

// present reports whether the packet has the headers that a calculation reads.
func (w *walk) present(a syntax.Arith) bool {
	switch a := a.(type) {
	case *syntax.Minus:
		return w.present(a.X)
	case *syntax.Operation:
		return w.present(a.X) && w.present(a.Y)
	case *syntax.Load:
		switch a.Proto {
		case syntax.ProtoLink:
			return w.present(a.Offset) && !w.place.bare
		case syntax.ProtoICMP6:
			return w.present(a.Offset) && w.linkIs(0x86dd) && w.net(6, 1) == 58
		}
		if protocolNumbers[a.Proto].in == syntax.ProtoLink {
			return w.present(a.Offset) && w.protocol(a.Proto)
		}
		return w.linkIs(0x800) && w.present(a.Offset) && w.protocol(a.Proto) && w.firstFragment()
	}
	return true
}

// calculate returns the value of a calculation whose headers are present.
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
		default:
			if protocolNumbers[a.Proto].in == syntax.ProtoLink {
				at += w.place.body
			} else {
				at += w.ipv4Body()
			}
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
		case headers.Cooked:
			outbound = w.number(0, 2) == 4
		case headers.Cooked2:
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
		if w.place.bare {
			return false
		}
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

// llc reports whether a frame has an 802.2 header, of a type: IEEE 802.2, 5.3 and 5.4.
func (w *walk) llc(name string) bool {
	header := w.place.body - 4*uint64(w.place.labels)
	if w.typeField() > 1500 || w.number(header, 2) == 0xffff {
		return false
	}
	if name == "" {
		return true
	}
	control := w.number(header+2, 1)
	switch name {
	case "i":
		return control&1 == 0
	case "s":
		return control&3 == 1
	case "u":
		return control&3 == 3
	}
	if v, isSupervisory := map[string]uint32{"rr": 1, "rnr": 5, "rej": 9}[name]; isSupervisory {
		return control&0xf == v
	}
	const pollOrFinal = 0x10
	return control&^pollOrFinal == map[string]uint32{"ui": 0x03, "ua": 0x63, "disc": 0x43, "dm": 0x0f, "sabme": 0x6f,
		"test": 0xe3, "xid": 0xaf, "frmr": 0x87}[name]
}
