package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// maxLevels is the maximum number of packets inside each other that inner looks at. Each has two
// scratch words.
const maxLevels = 4

// The walk (walk.go) leaves two scratch words for each level, a packet inside the one of the level
// before. Level 0 is the packet itself. One word has where the packet's Ethernet header begins or,
// if it has none, where it would begin: the network header is always 14 bytes behind. The other
// word has its EtherType and two flags; it is 0 if there is no such packet.
//
// Only every second word is used, because they are 4 bytes each at an odd multiple of 4 on eBPF's
// stack. The verifier keeps no value of such a word, so that it sees one state where the paths
// through all kinds of tunnels meet. With the values, their number would grow with each level.
const (
	isCarried   = 1 << 16
	hasEthernet = 1 << 17
)

func baseWord(level int) uint32 { return uint32(4*level - 4) }
func kindWord(level int) uint32 { return uint32(4*level - 2) }

// protocolWord has what the walk knows of the header at which it is.
const protocolWord = 1

// reserveLevels keeps the scratch words of the walk from all calculations.
func (g *generator) reserveLevels() {
	g.used[protocolWord], g.touched[protocolWord] = true, true
	for level := 1; level <= maxLevels; level++ {
		for _, word := range []uint32{baseWord(level), kindWord(level)} {
			g.used[word], g.touched[word] = true, true
		}
	}
}

// usesInner reports whether an expression has the word inner.
func usesInner(n syntax.Expr) bool { return innerDepth(n) > 0 }

// walksFor reports whether the walk belongs before this part of the expression: the smallest one
// with every inner in it. The tests before it choose whether a packet needs the walk.
func walksFor(n syntax.Expr) bool {
	switch n := n.(type) {
	case *syntax.Logical:
		return usesInner(n.X) && usesInner(n.Y)
	case *syntax.Inner:
		return true
	}
	return false
}

// inner tests the packets inside the present one, until the expression holds for one of them. Words
// in the expression that move later tests, like vlan, do so inside of it only.
func (g *generator) inner(n *syntax.Inner) *block {
	outside := g.place
	begin, untouched := g.begin, g.touched
	if depth := innerDepth(n); depth > maxLevels {
		n.At.Fail("", "inner is nested %d deep, and at most %d packets inside each other are looked at", depth, maxLevels)
	}
	var b *block
	touched := g.touched
	for level := maxLevels; level > outside.level; level-- {
		g.place = placeOf(level)
		g.begin, g.touched = nil, untouched // no two levels are tested at the same time
		here := g.expr(n.X)
		if len(g.begin) > 0 {
			here = and(always(true, g.begin...), here)
		}
		for word, is := range g.touched {
			touched[word] = touched[word] || is
			g.used[word] = g.used[word] && untouched[word]
		}
		b = and(exists(level), or(here, b))
	}
	g.place, g.begin, g.touched = outside, begin, touched
	if b == nil {
		return always(false)
	}
	return b
}

// innerDepth returns how many times inner is nested in itself.
func innerDepth(n syntax.Expr) int {
	switch n := n.(type) {
	case *syntax.Logical:
		return max(innerDepth(n.X), innerDepth(n.Y))
	case *syntax.Negation:
		return innerDepth(n.X)
	case *syntax.Inner:
		return 1 + innerDepth(n.X)
	}
	return 0
}

// placeOf is where the tests of a level look.
func placeOf(level int) place {
	base := offset{variable: true, slot: int(baseWord(level))}
	return place{linkhdr: base, linktype: offset{stored: true, slot: int(kindWord(level))}, payload: base.plus(14),
		toNetworkNoSNAP: snapLength, level: level, carried: true}
}

// exists tests whether the walk has found a packet of a level.
func exists(level int) *block {
	return not(newBlock(Jeq, 0, op(LdMem, kindWord(level))))
}

// levelHasEthernet tests whether the packet at the present level is an Ethernet frame: what tags,
// MPLS and IP carry directly has no Ethernet header.
func (g *generator) levelHasEthernet() *block {
	return newBlock(Jset, hasEthernet, op(LdMem, kindWord(g.level)))
}
