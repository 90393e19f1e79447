package optimise

import (
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// findLevels sorts the nodes by the length of their longest path to a return.
func (o *optimiser) findLevels() {
	o.mark++
	o.levels = o.levels[:0]
	var visit func(b *node)
	visit = func(b *node) {
		if b.mark == o.mark {
			return
		}
		b.mark = o.mark
		b.level = 0
		if b.to(graph.OnTrue) != nil {
			visit(b.to(graph.OnTrue))
			visit(b.to(graph.OnFalse))
			b.level = max(b.to(graph.OnTrue).level, b.to(graph.OnFalse).level) + 1
		}
		for len(o.levels) <= b.level {
			o.levels = append(o.levels, nil)
		}
		o.levels[b.level] = append(o.levels[b.level], b)
	}
	visit(o.root)
}

// each visits the nodes of a level, the one found last first.
func (o *optimiser) each(level int, f func(b *node)) {
	for _, n := range slices.Backward(o.levels[level]) {
		f(n)
	}
}

// down visits every node after all those that lead to it.
func (o *optimiser) down(f func(b *node)) {
	for level := len(o.levels) - 1; level >= 0; level-- {
		o.each(level, f)
	}
}

// up visits every node that has successors, after all of them.
func (o *optimiser) up(f func(b *node)) {
	for level := 1; level < len(o.levels); level++ {
		o.each(level, f)
	}
}

// findDominators finds, for every node and edge, the nodes or edges that are on every path to it.
func (o *optimiser) findDominators() {
	for _, b := range o.nodes {
		b.dom.fill(^uint64(0))
		for k := range b.edges {
			b.edges[k].dom.fill(^uint64(0))
		}
	}
	o.root.dom.fill(0)
	for k := range o.root.edges {
		o.root.edges[k].dom.fill(0)
	}
	o.down(func(b *node) {
		b.dom.add(b.id)
		for k := range b.edges {
			e := &b.edges[k]
			e.dom.add(e.id)
			if e.to == nil {
				continue
			}
			e.to.dom.intersect(b.dom)
			e.to.edges[graph.OnTrue].dom.intersect(e.dom)
			e.to.edges[graph.OnFalse].dom.intersect(e.dom)
		}
	})
}

// findInEdges finds the edges that lead to each node.
func (o *optimiser) findInEdges() {
	for _, b := range o.nodes {
		b.in = b.in[:0]
	}
	// libpcap puts each edge before those that it found earlier, so the lists are reversed at the
	// end.
	o.down(func(b *node) {
		if b.to(graph.OnTrue) == nil {
			return
		}
		for k := range b.edges {
			t := b.to(k)
			t.in = append(t.in, &b.edges[k])
		}
	})
	for _, b := range o.nodes {
		slices.Reverse(b.in)
	}
}
