package optimise

import (
	"encoding/binary"
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// merge replaces equal nodes by one. It visits the last node first, so it sees most nodes after
// their successors, and one pass merges whole equal tails.
func (o *optimiser) merge() {
	for again := true; again; {
		again = false
		o.markReachable()
		for _, b := range o.nodes {
			b.same = nil
		}
		seen := map[string]*node{}
		for _, b := range slices.Backward(o.nodes) {
			if b.mark != o.mark {
				continue
			}
			key := b.signature()
			if b.same = seen[key]; b.same == nil {
				seen[key] = b
			}
		}
		for _, b := range o.nodes {
			for k := range b.edges {
				if t := b.to(k); t != nil && t.same != nil {
					b.edges[k].to, again = t.same, true
				}
			}
		}
	}
}

// markReachable sets the mark of every node that the root leads to.
func (o *optimiser) markReachable() {
	o.mark++
	var visit func(b *node)
	visit = func(b *node) {
		if b == nil || b.mark == o.mark {
			return
		}
		b.mark = o.mark
		visit(b.to(graph.OnTrue))
		visit(b.to(graph.OnFalse))
	}
	visit(o.root)
}

// signature is the same for two nodes that do the same and continue at the same nodes.
func (b *node) signature() string {
	var key []byte
	add := func(v uint32) { key = binary.LittleEndian.AppendUint32(key, v) }
	for _, s := range b.Stmts {
		if s.Code != graph.Nop {
			add(uint32(s.Code))
			add(s.K)
		}
	}
	add(uint32(b.Last.Code))
	add(b.Last.K)
	for k := range b.edges {
		if t := b.to(k); t != nil {
			if t.same != nil {
				t = t.same
			}
			add(uint32(t.id))
		}
	}
	return string(key)
}

// skipRoot removes tests at the start of the filter if both exits lead to the same node.
func (o *optimiser) skipRoot() {
	first := o.root.Stmts
	o.root.Stmts = nil
	for o.root.Last.Code&cbpf.ClassMask == cbpf.ClassJMP && o.root.to(graph.OnTrue) == o.root.to(graph.OnFalse) {
		o.root = o.root.to(graph.OnTrue)
	}
	o.root.Stmts = append(first, o.root.Stmts...)
	if o.root.Last.Code&cbpf.ClassMask == cbpf.ClassRET {
		o.root.Stmts = nil
	}
}
