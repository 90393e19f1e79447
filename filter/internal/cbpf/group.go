package cbpf

import (
	"slices"
)

// group puts tests of one value together, so that one load serves them all: in "host a or host b or
// host c" first the tests of the source and then the tests of the destination.
//
// A chain is a row of tests that all leave it by one exit for the same node: the true exit for the
// tests of an "or", the false exit for the tests of an "and". Their order does not change the
// result, as long as the packet has the bytes of all of them, and no test uses an atom that another
// has written.
func (o *optimiser) group() {
	for _, n := range o.order {
		for exit := range n.edges {
			if n != o.entry && !n.returns() && !follows(n, exit) {
				o.groupChain(chainOf(n, exit), exit)
			}
		}
	}
}

// follows reports whether a node is in a chain behind another one.
func follows(n *node, exit int) bool {
	if len(n.in) != 1 {
		return false
	}
	e := n.in[0]
	return e.exit != exit && e.from.to(exit) == n.to(exit) && n.to(0) != n.to(1)
}

func chainOf(n *node, exit int) (chain []*node) {
	for chain = []*node{n}; ; chain = append(chain, n) {
		if n = n.to(1 - exit); n.returns() || n.mayDivide || !follows(n, exit) {
			return chain
		}
	}
}

// groupChain sorts the part of a chain where the packet has the bytes of all tests.
func (o *optimiser) groupChain(chain []*node, exit int) {
	begin := 0
	for _, n := range chain {
		for _, l := range n.loads {
			for begin < len(chain) && !chain[begin].before.reach.covers(l, &o.values) {
				begin++
			}
		}
	}
	chain = chain[begin:]
	if len(chain) < 2 {
		return
	}
	needed := chain[0].to(exit).use | chain[len(chain)-1].to(1-exit).use
	written := uint32(0)
	for _, n := range chain {
		written |= n.written
		needed |= n.read
	}
	if written&needed != 0 || chain[0].mayDivide {
		return
	}
	// The value that A has comes first, and then each in the order of its first test.
	rank := map[value]int{chain[0].before.held[atomA]: 0}
	for i, n := range chain {
		if _, ok := rank[n.test.a]; !ok {
			rank[n.test.a] = i + 1
		}
	}
	sorted := slices.SortedStableFunc(slices.Values(chain), func(a, b *node) int { return rank[a.test.a] - rank[b.test.a] })
	var blocks []*block
	for _, n := range sorted {
		blocks = append(blocks, n.block)
	}
	for i, n := range chain {
		n.block = blocks[i]
	}
}
