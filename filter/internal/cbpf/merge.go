package cbpf

import (
	"encoding/binary"
	"slices"
)

// merge replaces equal nodes by one. It begins at the end, so that it visits every node after its
// successors, and one pass merges whole equal tails.
func (o *optimiser) merge() {
	o.findOrder()
	seen := map[string]*node{}
	for _, n := range slices.Backward(o.order) {
		for exit := range n.edges {
			if to := n.to(exit); to != nil && to.same != to {
				n.edges[exit].to, o.changed = to.same, true
			}
		}
		key := n.signature()
		if seen[key] == nil {
			seen[key] = n
		}
		n.same = seen[key]
	}
}

// signature returns a key that is equal for nodes with the same instructions and successors.
func (n *node) signature() string {
	var key []byte
	add := func(v uint32) { key = binary.LittleEndian.AppendUint32(key, v) }
	for _, s := range n.stmts {
		add(uint32(s.Code))
		add(s.K)
	}
	add(uint32(n.last.Code))
	add(n.last.K)
	for exit := range n.edges {
		if to := n.to(exit); to != nil {
			add(uint32(to.index))
		}
	}
	return string(key)
}
