package cbpf

import (
	"slices"
)

// group puts tests of one value together, so that one load serves them all: in "host a or host b or
// host c" first the tests of the source and then the tests of the destination.
//
// A chain is a row of tests with the same target at one exit: the true exit for the tests of an
// "or", the false exit for the tests of an "and". At the other exit comes the next test. Their
// order does not change the result if the packet has the bytes of all tests, and no test reads an
// atom that another one writes.
func (o *optimiser) group() {
	for _, n := range o.order {
		for exit := range n.edges {
			if n != o.entry && !n.returns() && !continuesChain(n, exit) {
				o.groupChain(chainOf(n, exit), exit)
			}
		}
	}
}

// continuesChain reports whether a node is in the chain of its predecessor.
func continuesChain(n *node, exit int) bool {
	if len(n.in) != 1 {
		return false
	}
	e := n.in[0]
	return e.exit != exit && e.from.to(exit) == n.to(exit) && n.to(0) != n.to(1)
}

// chainOf returns the chain that begins with a node.
func chainOf(n *node, exit int) (chain []*node) {
	for chain = []*node{n}; ; chain = append(chain, n) {
		if n = n.to(1 - exit); n.returns() || n.mayDivide || !continuesChain(n, exit) {
			return chain
		}
	}
}

// groupChain sorts the last part of a chain, where the packet has the bytes of all tests.
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
	needed := chain[0].to(exit).liveIn | chain[len(chain)-1].to(1-exit).liveIn
	written := uint32(0)
	for _, n := range chain {
		written |= n.written
		needed |= n.read
	}
	if written&needed != 0 || chain[0].mayDivide {
		return
	}
	// First come tests of the value that A has already, then each value in the order of its first
	// test.
	rank := map[value]int{chain[0].before.held[atomA]: 0}
	for i, n := range chain {
		if _, ok := rank[n.test.a]; !ok {
			rank[n.test.a] = i + 1
		}
	}
	sorted := slices.SortedStableFunc(slices.Values(chain), func(a, b *node) int { return rank[a.test.a] - rank[b.test.a] })
	var blocks []*block // the nodes keep their edges, and exchange their blocks
	for _, n := range sorted {
		blocks = append(blocks, n.block)
	}
	for i, n := range chain {
		n.block = blocks[i]
	}
}
