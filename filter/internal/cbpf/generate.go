package cbpf

import (
	"encoding/binary"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// generator turns a tree into blocks. The order of the loads is libpcap's. It matters, because a
// load past the end of a packet ends the filter with "no match".
type generator struct {
	netmask   uint32
	outbound  bool
	hasMask   bool
	fragments bool
	vxlanPort uint32

	outer  headers.Link // the link type of the packet's first header
	whole  place        // the beginning of the packet
	walked bool         // the walk for inner, if it is needed, comes before this part of the expression
	place

	used, touched [ScratchWords]bool // in use now; ever used
	begin         []*stmt            // statements for the start of the program
}

// place is where the next test of the text looks. Words like vlan move it, and inner moves it for
// its operand.
type place struct {
	link            linkType
	linkhdr         offset // start of the link header
	linktype        offset // its type field
	payload         offset // the first byte after it
	toNetwork       uint32 // bytes from payload to the network header
	toNetworkNoSNAP uint32 // the same without a SNAP header
	labels          int    // MPLS labels passed

	// mayLackEthernet means that a Geneve header comes just before: its payload may not be
	// Ethernet.
	mayLackEthernet bool

	level   int  // how many packets of the walk contain this one
	carried bool // nothing has moved the place since inner: see inner.go
}

// snapLength is the length of an 802.2 header without SNAP.
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

// offset is a position in the packet: a constant, plus a scratch word if variable is set.
type offset struct {
	constant uint32
	variable bool
	slot     int  // the scratch word's index
	stored   bool // of a type field: the scratch word has the type itself, not its position
}

func (o offset) plus(k uint32) offset {
	o.constant += k
	return o
}

// newGenerator makes a generator for frames with shift bytes of VLAN tags after their addresses.
func newGenerator(o Options, shift uint32) *generator {
	g := &generator{outbound: o.Outbound, fragments: o.Fragments, vxlanPort: o.VXLANPort, outer: o.Link}
	g.place = place{linktype: offset{constant: 12 + shift}, payload: offset{constant: 14 + shift}, toNetworkNoSNAP: snapLength}
	switch o.Link {
	case headers.Cooked:
		g.link, g.linktype, g.payload, g.toNetworkNoSNAP = linkCooked, offset{constant: 14}, offset{constant: 16}, 0
	case headers.Cooked2:
		g.link, g.linktype, g.payload, g.toNetworkNoSNAP = linkCooked2, offset{}, offset{constant: 20}, 0
	case headers.Raw:
		g.link, g.linktype, g.payload, g.toNetworkNoSNAP = linkRaw, offset{}, offset{}, 0
	case headers.Loopback:
		g.link, g.linktype, g.payload, g.toNetworkNoSNAP = linkLoopback, offset{}, offset{constant: 4}, 0
	}
	g.whole = g.place
	if len(o.Netmask) == 4 {
		g.hasMask, g.netmask = true, binary.BigEndian.Uint32(o.Netmask)
	}
	return g
}

// generate makes the graph of a whole expression and returns its first block. root is nil for the
// empty expression.
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
	first.Stmts = append(begin, first.Stmts...)
	return first
}

// generateTagged compiles the expression three times, for frames with 0, 1 and 2 VLAN tags, and
// tests the frame's types to choose one. Joining the three by "or" would be wrong: a tagged frame
// that is read as if it had no tag is "not tcp", even if it carries TCP.
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
			g.level = int(min(depth, 1)) // the first level of the walk is behind the tags
		}
		here := g.expr(root)
		begin = append(begin, g.begin...)
		if depth < 2 {
			here = and(not(newGenerator(o, 4*depth).vlanType()), here)
		}
		for outer := depth; outer > 0; outer-- {
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
	if !g.walked && walksFor(n) {
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
	const sent = 4
	var b *block
	switch g.outer {
	case headers.Cooked:
		b = newBlock(Jeq, sent, op(LdAbs|SizeH, 0))
	case headers.Cooked2:
		b = newBlock(Jeq, sent, op(LdAbs|SizeB, 10))
	default:
		return always(g.outbound == outbound)
	}
	if !outbound {
		return not(b)
	}
	return b
}

// ifindex tests for the index of an interface, which only the header of LINUX_SLL2 contains.
func (g *generator) ifindex(s *syntax.Special) *block {
	if g.outer != headers.Cooked2 {
		s.At.FailAs(syntax.ErrInterface, "remove it", "the interface is chosen outside the filter")
	}
	return newBlock(Jeq, s.Arg, op(LdAbs|SizeW, 4))
}

// always runs statements, and is a test whose result is v.
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

// slot reserves a scratch word for a result of a calculation.
func (g *generator) slot(t syntax.Token) int {
	for slot := range ScratchWords {
		if !g.used[slot] {
			g.used[slot], g.touched[slot] = true, true
			return slot
		}
	}
	t.Fail("", "the calculation needs more than %d intermediate results", ScratchWords)
	return 0
}

// free releases a scratch word.
func (g *generator) free(slot int) { g.used[slot] = false }
