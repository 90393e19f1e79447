package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/fault"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// node is a block and what the passes know about it. While the passes run, edges hold the jump's
// targets; finish writes them back to the block's Exits.
type node struct {
	*graph.Block
	edges [2]edge // [graph.OnTrue], [graph.OnFalse]; to is nil after a return
	id    int
	mark  int // optimiser.mark of the walk that saw the node last

	level int     // length of the longest path to a return
	dom   bitset  // ids of the nodes on every path to this one
	in    []*edge // edges that lead here

	// Sets of atoms: those read before they are written, those written, those needed after the
	// node.
	use, kill, out uint32

	values  [atoms]int // value number of every atom after the node's statements
	operand int        // value number of the operand that the jump compares with A

	same *node // an equal node that stays in place of this one
}

func (n *node) to(exit int) *node { return n.edges[exit].to }

// edge is one exit of a node.
type edge struct {
	from, to *node
	id       int
	dom      bitset // ids of the edges on every path that ends with this one
}

// optimiser holds the graph, and what is known about all of it.
type optimiser struct {
	root   *node
	nodes  []*node
	edges  []*edge
	levels [][]*node // the nodes that can be reached, by level
	mark   int       // of the current walk

	numbering numbering
	changed   bool // in this round
	work      bool // in this round, by more than moving branches
}

// maxNodes bounds the memory for the sets of edges, which grows with the square of the nodes: 128
// MiB at the limit. A filter with more tests would be longer than the kernel's 4096 instructions
// anyway.
const maxNodes = 16384

// newOptimiser makes a node for every block. The order of the nodes and the numbers of the edges
// are libpcap's: if shortcut can jump over several edges, it takes the one with the lowest number.
func newOptimiser(first *graph.Block) *optimiser {
	o := &optimiser{}
	seen := map[*graph.Block]*node{}
	var visit func(b *graph.Block) *node
	visit = func(b *graph.Block) *node {
		if b == nil || seen[b] != nil {
			return seen[b]
		}
		n := &node{Block: b, id: len(o.nodes)}
		seen[b] = n
		o.nodes = append(o.nodes, n)
		for exit, to := range b.Exits {
			n.edges[exit].to = visit(to)
		}
		return n
	}
	o.root = visit(first)
	n := len(o.nodes)
	if n > maxNodes {
		fault.Raise("join networks instead of hosts, or split the filter", "expression has %d tests, at most %d are possible", n, maxNodes)
	}
	o.edges = make([]*edge, 2*n)
	for i, b := range o.nodes {
		b.dom = make(bitset, n/64+1)
		for k := range b.edges {
			e := &b.edges[k]
			e.from, e.id, e.dom = b, k*n+i, make(bitset, 2*n/64+1)
			o.edges[e.id] = e
		}
	}
	return o
}

// finish writes the edges back to the blocks, and returns the first block.
func (o *optimiser) finish() *graph.Block {
	for _, n := range o.nodes {
		for exit := range n.edges {
			if to := n.to(exit); to != nil {
				n.Exits[exit] = to.Block
			}
		}
	}
	return o.root.Block
}
