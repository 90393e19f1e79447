package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// maxLevels is the maximum number of packets inside each other that inner tests.
const maxLevels = 4

// The walk (walk.go) finds the packets inside the packet: level 0 is the packet itself, and each
// level is a packet inside that of the level before. The walk stores two scratch words for each
// level. The base word is the offset of the packet's Ethernet header. A packet without one has the
// offset 14 bytes before its network header. The kind word has the EtherType and two flags; it is 0
// if there is no such packet.
//
// All these words are at odd multiples of 4 bytes on eBPF's stack. The verifier keeps no value of
// such a word, so that it has one state where the paths through all kinds of tunnels join. With
// values, the number of states would grow with each level.
const (
	isCarried   = 1 << 16
	hasEthernet = 1 << 17
)

func baseWord(level int) uint32 { return uint32(4*level - 4) }
func kindWord(level int) uint32 { return uint32(4*level - 2) }

// protocolWord has a field of the current header: the type of the next header, or the flags of GRE.
const protocolWord = 1

// reserveLevels reserves the scratch words of the walk.
func (g *generator) reserveLevels() {
	g.reserve(protocolWord)
	for level := 1; level <= maxLevels; level++ {
		g.reserve(baseWord(level))
		g.reserve(kindWord(level))
	}
}

// usesInner reports whether an expression has the word inner.
func usesInner(n syntax.Expr) bool { return innerDepth(n) > 0 }

// needsWalk reports whether the walk belongs before this part of the expression, the smallest part
// with every inner in it. So tests before that part can spare a packet the walk.
func needsWalk(n syntax.Expr) bool {
	switch n := n.(type) {
	case *syntax.Logical:
		return usesInner(n.X) && usesInner(n.Y)
	case *syntax.Inner:
		return true
	}
	return false
}

// inner tests the packets inside the current one, until the expression holds for one of them. A
// word like vlan moves only the later tests of this expression.
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
		for word, isTouched := range g.touched {
			touched[word] = touched[word] || isTouched
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

// innerDepth returns the maximum nesting of inner.
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

// placeOf is the place of the first test of a level.
func placeOf(level int) place {
	base := offset{variable: true, slot: baseWord(level)}
	return place{linkhdr: base, linktype: offset{stored: true, slot: kindWord(level)}, payload: base.plus(14),
		toNetworkNoSNAP: snapLength, level: level, carried: true}
}

// exists tests whether the walk has found a packet of a level.
func exists(level int) *block {
	return not(newBlock(Jeq, 0, op(LdMem, kindWord(level))))
}

// levelHasEthernet tests whether the packet of the current level is an Ethernet frame. A packet
// directly behind tags, MPLS labels or IP has no Ethernet header.
func (g *generator) levelHasEthernet() *block {
	return newBlock(Jset, hasEthernet, op(LdMem, kindWord(g.level)))
}
