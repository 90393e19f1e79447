package cbpf

import (
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// node is a block with the results of the analysis. While the passes run, edges hold the jump's
// targets; finish writes them back to the block's exits.
type node struct {
	*block
	edges     [2]edge // [onTrue], [onFalse]; to is nil after a return
	in        []*edge // edges that lead here
	dominator *edge   // the last edge that dominates this node, or nil
	mark      int     // optimiser.mark of the last search that visited the node
	index     int     // in optimiser.order

	before, after state  // the state when the node begins, and when it jumps
	test          test   // the comparison of its jump
	loads         []load // of its statements
	mayDivide     bool   // it may divide by 0

	// Sets of atoms, a bit for each.
	liveIn  uint32 // read by the node or a successor before they are written
	liveOut uint32 // the same after the node
	written uint32 // by the node
	read    uint32 // by the node, before it writes them

	same *node // the equal node that replaces this one; the node itself if there is none
}

func (n *node) to(exit int) *node { return n.edges[exit].to }

// edge is one exit of a node.
type edge struct {
	from, to *node
	exit     int
	depth    int // the number of edges that dominate this one
}

// up returns the last edge before e that dominates e.
func (e *edge) up() *edge { return e.from.dominator }

// optimiser holds the graph, and the results of the analysis for all of it.
type optimiser struct {
	entry   *node   // leads to the first node by both of its edges
	order   []*node // the reachable nodes, each before its successors
	mark    int     // of the current search
	values  values
	changed bool // in this round
}

// maxNodes limits the optimiser's time, which grows with the square of the number of nodes. A
// filter with more tests would be longer than the kernel's 4096 instructions anyway.
const maxNodes = 16384

func newOptimiser(first *block) *optimiser {
	seen := map[*block]*node{}
	var visit func(b *block) *node
	visit = func(b *block) *node {
		if b == nil || seen[b] != nil {
			return seen[b]
		}
		n := newNode(b)
		seen[b] = n
		if len(seen) > maxNodes {
			syntax.Raise("join networks instead of hosts, or split the filter", "expression has more than %d tests", maxNodes)
		}
		for exit, to := range b.exits {
			n.edges[exit].to = visit(to)
		}
		return n
	}
	entry := newNode(&block{last: stmt{Code: Jeq}})
	entry.edges[onTrue].to = visit(first)
	entry.edges[onFalse].to = entry.edges[onTrue].to
	return &optimiser{entry: entry}
}

func newNode(b *block) *node {
	n := &node{block: b}
	for exit := range n.edges {
		n.edges[exit].from, n.edges[exit].exit = n, exit
	}
	return n
}

// finish writes the edges back to the blocks, and returns the first block.
func (o *optimiser) finish() *block {
	o.findOrder()
	for _, n := range o.order {
		for exit := range n.edges {
			if to := n.to(exit); to != nil {
				n.exits[exit] = to.block
			}
		}
	}
	return o.entry.to(onTrue).block
}

// findOrder finds the reachable nodes, and the edges that lead to each.
func (o *optimiser) findOrder() {
	o.mark++
	o.order = o.order[:0]
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || n.mark == o.mark {
			return
		}
		n.mark = o.mark
		n.in = n.in[:0]
		visit(n.to(onFalse))
		visit(n.to(onTrue))
		o.order = append(o.order, n)
	}
	visit(o.entry)
	slices.Reverse(o.order)
	for i, n := range o.order {
		n.index = i
		for exit := range n.edges {
			if to := n.to(exit); to != nil {
				to.in = append(to.in, &n.edges[exit])
			}
		}
	}
}

// findDominators finds the last edge that dominates each node: every path to the node takes it.
func (o *optimiser) findDominators() {
	for _, n := range o.order {
		n.dominator = nil
		if !n.returns() { // the state at a return is never used, and many edges lead to it
			for i, e := range n.in {
				if n.dominator = common(n.dominator, e); i == 0 {
					n.dominator = e
				}
			}
		}
		for exit := range n.edges {
			n.edges[exit].depth = 1
			if n.dominator != nil {
				n.edges[exit].depth = n.dominator.depth + 1
			}
		}
	}
}

// common returns the last edge that dominates both a and b. An edge dominates itself.
func common(a, b *edge) *edge {
	for a != b {
		switch {
		case a == nil || b == nil:
			return nil
		case a.depth >= b.depth:
			a = a.up()
		default:
			b = b.up()
		}
	}
	return a
}
