package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// generator turns a tree into blocks.
type generator struct {
	Options
	place

	walked bool // the walk for inner precedes the current part of the expression, or is not needed

	used, touched [ScratchWords]bool // the scratch words that are reserved now; that ever were
	begin         []*stmt            // statements for the start of the program
}

// place is the position of the next test of the text. Words like vlan move it, and inner moves it
// for its operand.
type place struct {
	link            linkType
	linkhdr         offset // start of the link header
	linktype        offset // its type field
	payload         offset // the first byte after it
	toNetwork       uint32 // bytes from payload to the network header
	toNetworkNoSNAP uint32 // bytes from payload to the header after 802.2 without SNAP
	labels          int    // MPLS labels passed

	// mayLackEthernet means that a Geneve header comes just before: its payload may not be
	// Ethernet.
	mayLackEthernet bool

	level   int  // the packet of the walk that contains the place; 0 = the packet itself
	carried bool // no word has moved the place since inner: see inner.go
}

// snapLength is the length of an 802.2 header without SNAP, in bytes.
const snapLength = 3

type linkType int

const (
	linkEthernet linkType = iota
	linkPPP
	linkCooked
	linkCooked2
	linkRaw
	linkLoopback
)

// firstPlace is the beginning of a packet of a link type, for Ethernet with shift bytes of VLAN
// tags after the addresses.
func firstPlace(l headers.Link, shift uint32) place {
	switch l {
	case headers.Cooked:
		return place{link: linkCooked, linktype: offset{constant: 14}, payload: offset{constant: 16}}
	case headers.Cooked2:
		return place{link: linkCooked2, payload: offset{constant: 20}}
	case headers.Raw:
		return place{link: linkRaw}
	case headers.Loopback:
		return place{link: linkLoopback, payload: offset{constant: 4}}
	}
	return place{linktype: offset{constant: 12 + shift}, payload: offset{constant: 14 + shift}, toNetworkNoSNAP: snapLength}
}

func newGenerator(o Options, shift uint32) *generator {
	return &generator{Options: o, place: firstPlace(o.Link, shift)}
}

// generate makes the graph of a whole expression, and returns its first block.
func generate(root syntax.Expr, o Options) (first *block) {
	accept, reject := newBlock(RetK, o.SnapLen), newBlock(RetK, 0)
	if root == nil {
		return accept
	}
	var b *block
	var begin []*stmt
	if o.VLANAware && o.Link == headers.Ethernet && !mentionsVLAN(root) {
		b, begin = generateTagged(root, o)
	} else {
		g := newGenerator(o, 0)
		if g.walked = !usesInner(root); !g.walked {
			g.reserveLevels()
		}
		b = g.expr(root)
		begin = g.begin
	}
	first = branch(b, accept, reject)
	first.stmts = append(begin, first.stmts...)
	return first
}

// generateTagged compiles the expression three times, for frames with 0, 1 and 2 VLAN tags, and
// tests the frame's types to choose one. Joining the three by "or" would be wrong: read without
// regard to its tag, a tagged frame of TCP matches "not tcp".
func generateTagged(root syntax.Expr, o Options) (b *block, begin []*stmt) {
	inner := usesInner(root)
	var walk *block
	if inner { // one walk serves the three
		g := newGenerator(o, 0)
		g.reserveLevels()
		walk = g.walk()
	}
	for depth := range uint32(3) {
		g := newGenerator(o, 4*depth)
		g.walked = true
		if inner {
			g.reserveLevels()
			g.level = int(min(depth, 1)) // the walk counts the packet behind the tags as level 1
		}
		here := g.expr(root)
		begin = append(begin, g.begin...)
		if depth < 2 {
			here = and(not(newGenerator(o, 4*depth).vlanType()), here)
		}
		for outer := depth; outer > 0; outer-- { // the types before the last one are of tags
			here = and(newGenerator(o, 4*(outer-1)).vlanType(), here)
		}
		b = or(b, here)
	}
	return and(walk, b), begin
}

// mentionsVLAN reports whether the expression itself tests for VLAN tags.
func mentionsVLAN(n syntax.Expr) bool {
	switch n := n.(type) {
	case *syntax.Logical:
		return mentionsVLAN(n.X) || mentionsVLAN(n.Y)
	case *syntax.Negation:
		return mentionsVLAN(n.X)
	case *syntax.Special:
		return n.At.Kind == syntax.KindEncap && syntax.Encap(n.At.Num) == syntax.EncapVLAN
	}
	return false
}

// expr generates the test of a node of the tree.
func (g *generator) expr(n syntax.Expr) *block {
	if !g.walked && needsWalk(n) {
		g.walked = true
		walk := g.walk()
		return and(walk, g.expr(n))
	}
	switch n := n.(type) {
	case *syntax.Logical:
		x := g.expr(n.X)
		y := g.expr(n.Y)
		if n.Or {
			return or(x, y)
		}
		return and(x, y)
	case *syntax.Negation:
		return not(g.expr(n.X))
	case *syntax.Inner:
		return g.inner(n)
	case *syntax.Primitive:
		return g.primitive(n)
	case *syntax.Protocol:
		return g.protocol(n.At, n.Proto)
	case *syntax.Relation:
		return g.relation(n)
	default:
		return g.special(n.(*syntax.Special))
	}
}

// special generates the tests that begin with a keyword.
func (g *generator) special(s *syntax.Special) *block {
	switch s.At.Kind {
	case syntax.KindDirection:
		return g.direction(s.At.Num == 1)
	case syntax.KindLess:
		return not(newBlock(Jgt, s.Arg, op(LdLen, 0)))
	case syntax.KindGreater:
		return newBlock(Jge, s.Arg, op(LdLen, 0))
	case syntax.KindByte:
		return g.byteTest(s)
	case syntax.KindIfindex:
		return g.ifindex(s)
	case syntax.KindBroadcast:
		return g.broadcast(s)
	case syntax.KindMulticast:
		return g.multicast(s)
	case syntax.KindLLC:
		return g.llc(s)
	default:
		return g.encap(s)
	}
}

// direction tests for sent packets, or for all others. A cooked header contains the direction.
func (g *generator) direction(outbound bool) *block {
	const sent = 4 // PACKET_OUTGOING of linux/if_packet.h
	var b *block
	switch g.Link {
	case headers.Cooked:
		b = newBlock(Jeq, sent, op(LdAbs|SizeH, 0))
	case headers.Cooked2:
		b = newBlock(Jeq, sent, op(LdAbs|SizeB, 10))
	default:
		return always(g.Outbound == outbound)
	}
	if !outbound {
		return not(b)
	}
	return b
}

// ifindex tests for the index of an interface, which only the header of LINUX_SLL2 contains.
func (g *generator) ifindex(s *syntax.Special) *block {
	if g.Link != headers.Cooked2 {
		s.At.FailAs(syntax.ErrInterface, "remove it", "the interface is chosen outside the filter")
	}
	return newBlock(Jeq, s.Arg, op(LdAbs|SizeW, 4))
}

// always makes a test that runs statements, and has the result v.
func always(v bool, stmts ...*stmt) *block {
	k := uint32(0)
	if !v {
		k = 1
	}
	return newBlock(Jeq, 0, append(stmts, op(LdImm, k))...)
}

// byteTest is "byte offset op value", which means "ether[offset] op value". With & and | the result
// must not be 0.
func (g *generator) byteTest(s *syntax.Special) *block {
	checkMax(s.At, "byte value", s.Value, 0xff)
	operator := func(op uint32) syntax.Token { return syntax.Token{Kind: syntax.KindSymbol, Num: op} }
	var x syntax.Arith = &syntax.Load{At: s.At, Proto: syntax.ProtoLink, Offset: &syntax.Constant{Value: s.Arg}, Bytes: 1}
	value := &syntax.Constant{Value: s.Value}
	if s.Op == '&' || s.Op == '|' {
		x = &syntax.Operation{At: operator(s.Op), X: x, Y: value}
		return g.relation(&syntax.Relation{At: operator(syntax.SymNE), X: x, Y: &syntax.Constant{}})
	}
	return g.relation(&syntax.Relation{At: operator(s.Op), X: x, Y: value})
}

// reserve marks a scratch word as used.
func (g *generator) reserve(slot uint32) { g.used[slot], g.touched[slot] = true, true }

// slot reserves a scratch word for a result of a calculation.
func (g *generator) slot(t syntax.Token) uint32 {
	for slot := range uint32(ScratchWords) {
		if !g.used[slot] {
			g.reserve(slot)
			return slot
		}
	}
	t.Fail("", "the calculation needs more than %d intermediate results", ScratchWords)
	return 0
}

// free releases a scratch word.
func (g *generator) free(slot uint32) { g.used[slot] = false }
