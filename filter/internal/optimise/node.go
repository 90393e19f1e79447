package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/fault"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// node is a block and what is known of it. While the passes run, edges say where the block's jump
// goes; finish writes that back to the block's own Exits.
type node struct {
	*graph.Block
	edges [2]edge // [graph.OnTrue], [graph.OnFalse]; to is nil behind a return
	id    int
	mark  int // optimiser.mark of the walk that saw the node last

	level int     // length of the longest way to a return
	dom   bitset  // ids of the nodes that every way to this one goes through
	in    []*edge // edges that lead here

	// Sets of atoms: those read before they are written, those written, those needed behind the
	// node.
	use, kill, out uint32

	values  [atoms]int // value number of every atom behind the node's statements
	operand int        // value number of what the jump compares A with

	same *node // an equal node that stays in place of this one
}

func (n *node) to(exit int) *node { return n.edges[exit].to }

// edge is one way out of a node.
type edge struct {
	from, to *node
	id       int
	dom      bitset // ids of the edges that every way through this one has taken
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
	work      bool // in this round, and otherwise than by moving branches
}

// maxNodes bounds the memory for the sets of edges, which grows with the square: 128 MiB at the
// limit. A filter of more tests than that would not come out shorter than the kernel's 4096
// instructions.
const maxNodes = 16384

// newOptimiser makes a node of every block. The nodes' order, and the edges' numbers, are
// libpcap's: of several edges that shortcut could jump over, the one with the lowest number
// decides.
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

// finish writes the edges back to the blocks, and gives back the first block.
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
