package filter

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// Moved returns the first word of an expression that moves the tests of a later "or" behind a
// header: vlan, mpls, pppoes, vxlan or geneve. In "vlan 5 or ip" the test for IP applies behind a
// VLAN tag, as in tcpdump, but most users mean untagged IP packets. Moved returns "" if the
// expression has no such word, or is faulty. After inner these words move only the tests of its
// operand.
func Moved(text string) (word string) {
	syntax.Catch(func() { word = moved(syntax.Parse(text)) })
	return word
}

func moved(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.Negation:
		return moved(x.X)
	case *syntax.Inner:
		return moved(x.X)
	case *syntax.Logical:
		if word := moved(x.X); word != "" {
			return word
		}
		if word := moves(x.X); x.Or && word != "" && readsPacket(x.Y) {
			return word
		}
		return moved(x.Y)
	}
	return ""
}

// moves returns the word of an expression that moves all tests after it, or "".
func moves(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.Negation:
		return moves(x.X)
	case *syntax.Logical:
		if word := moves(x.X); word != "" {
			return word
		}
		return moves(x.Y)
	case *syntax.Special:
		if x.At.Kind == syntax.KindEncap && syntax.Encap(x.At.Num) != syntax.EncapPPPoED {
			return x.At.Text
		}
	}
	return ""
}

// readsPacket reports whether an expression has a test that a header before it moves.
func readsPacket(x syntax.Expr) bool {
	switch x := x.(type) {
	case *syntax.Negation:
		return readsPacket(x.X)
	case *syntax.Logical:
		return readsPacket(x.X) || readsPacket(x.Y)
	case *syntax.Special:
		return x.At.Kind != syntax.KindLess && x.At.Kind != syntax.KindGreater && x.At.Kind != syntax.KindDirection
	case *syntax.Relation:
		return readsHeader(x.X) || readsHeader(x.Y)
	}
	return x != nil
}

func readsHeader(a syntax.Arith) bool {
	switch a := a.(type) {
	case *syntax.Load:
		return true
	case *syntax.Minus:
		return readsHeader(a.X)
	case *syntax.Operation:
		return readsHeader(a.X) || readsHeader(a.Y)
	}
	return false
}
