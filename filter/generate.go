package filter

import "github.com/xdpcap/xdpcap/filter/internal/cbpf"

// generator turns the tree into blocks. The order of the loads matters, since one past the end of a packet ends the filter
// with "no match"; it is libpcap's.
type generator struct {
	netmask uint32
	hasMask bool

	link     linkType
	previous bool   // a Geneve header was just passed: its payload may be no Ethernet
	linkhdr  offset // start of the link header
	linktype offset // its type field
	payload  offset // what follows it
	nl       uint32 // network header, from payload
	nosnap   uint32 // the same where there is no SNAP header
	labels   int    // MPLS labels passed
	verbatim bool   // has jumps inside blocks, which simplify cannot follow

	used    [cbpf.ScratchWords]bool
	current int
}

type linkType int

const (
	linkEthernet linkType = iota
	linkPPP
)

// offset is a place in the packet, the sum of a constant and perhaps a scratch word.
type offset struct {
	constant uint32
	variable bool
	slot     int
}

func newGenerator(o Options, shift uint32) *generator {
	g := &generator{linktype: offset{constant: 12 + shift}, payload: offset{constant: 14 + shift}, nosnap: 3}
	if len(o.Netmask) == 4 {
		m := o.Netmask
		g.hasMask, g.netmask = true, uint32(m[0])<<24|uint32(m[1])<<16|uint32(m[2])<<8|uint32(m[3])
	}
	return g
}

// generate makes the graph for the whole expression: its first block, and whether simplify may touch it.
func generate(root node, o Options) (first *block, verbatim bool) {
	accept, reject := newBlock(cbpf.RetK, uint32(o.SnapLen)), newBlock(cbpf.RetK, 0)
	if root == nil {
		return accept, false
	}
	g := newGenerator(o, 0)
	var b *block
	if o.VLANAware && !mentionsVLAN(root) {
		b, g.verbatim = generateTagged(root, o)
	} else {
		b = g.node(root)
	}
	first = b.head
	patch(b, accept)
	patch(not(b), reject)
	return first, g.verbatim
}

// generateTagged compiles the expression for frames with no, one and two VLAN tags, and chooses by the frame's own types. A
// union would not do: "not tcp" is true of a tagged frame that is read as if it had no tag.
func generateTagged(root node, o Options) (b *block, verbatim bool) {
	for depth := range uint32(3) {
		g := newGenerator(o, 4*depth)
		here := g.node(root)
		verbatim = verbatim || g.verbatim
		if depth < 2 {
			here = and(not(newGenerator(o, 4*depth).vlanType()), here)
		}
		for outer := depth; outer > 0; outer-- {
			here = and(newGenerator(o, 4*(outer-1)).vlanType(), here)
		}
		if b != nil {
			here = or(b, here)
		}
		b = here
	}
	return b, verbatim
}

// mentionsVLAN tells whether the expression itself says where it wants tags.
func mentionsVLAN(n node) bool {
	switch n := n.(type) {
	case *logical:
		return mentionsVLAN(n.x) || mentionsVLAN(n.y)
	case *negation:
		return mentionsVLAN(n.x)
	case *special:
		return n.at.kind == kEncap && encap(n.at.num) == encapVLAN
	}
	return false
}

func (g *generator) node(n node) *block {
	switch n := n.(type) {
	case *logical:
		x := g.node(n.x)
		y := g.node(n.y)
		if n.or {
			return or(x, y)
		}
		return and(x, y)
	case *negation:
		return not(g.node(n.x))
	case *primitive:
		return g.primitive(n)
	case *protocol:
		return g.protocol(n.at, n.proto)
	case *relation:
		return g.relation(n)
	default:
		return g.special(n.(*special))
	}
}

func (g *generator) special(s *special) *block {
	switch s.at.kind {
	case kDirection:
		return always(s.at.num == 0) // XDP sees received packets only
	case kLess:
		return not(newBlock(cbpf.ClassJMP|cbpf.OpJgt, s.arg, op(cbpf.LdLen, 0)))
	case kGreater:
		return newBlock(cbpf.ClassJMP|cbpf.OpJge, s.arg, op(cbpf.LdLen, 0))
	case kByte:
		return g.byteTest(s)
	case kBroadcast:
		return g.broadcast(s)
	case kMulticast:
		return g.multicast(s)
	case kLLC:
		return g.llc(s)
	default:
		return g.encap(s)
	}
}

func always(v bool) *block {
	k := uint32(0)
	if !v {
		k = 1
	}
	return newBlock(cbpf.ClassJMP|cbpf.OpJeq, 0, op(cbpf.LdImm, k))
}

// byteTest is "byte offset op value". For & and | libpcap forgets to load the byte, and so do we: the filter means what
// tcpdump's means.
func (g *generator) byteTest(s *special) *block {
	at := field{from: fromLink, offset: s.arg}
	switch s.op {
	case '=':
		return g.compare(at, cbpf.SizeB, cbpf.OpJeq, s.value)
	case '<':
		return not(g.compare(at, cbpf.SizeB, cbpf.OpJge, s.value))
	case '>':
		return g.compare(at, cbpf.SizeB, cbpf.OpJgt, s.value)
	}
	code := cbpf.ClassALU | cbpf.OpOr
	if s.op == '&' {
		code = cbpf.ClassALU | cbpf.OpAnd
	}
	return not(newBlock(cbpf.ClassJMP|cbpf.OpJeq, 0, op(code, s.value)))
}

// slot reserves a scratch word.
func (g *generator) slot(t token) int {
	for range cbpf.ScratchWords {
		if !g.used[g.current] {
			g.used[g.current] = true
			return g.current
		}
		g.current = (g.current + 1) % cbpf.ScratchWords
	}
	fail(t, "", "the calculation needs more than %d intermediate results", cbpf.ScratchWords)
	return 0
}

func (g *generator) free(slot int) { g.used[slot] = false }
