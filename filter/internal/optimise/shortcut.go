package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// shortcut moves the target of an edge past nodes whose tests have a known result for packets that
// take this edge.
func (o *optimiser) shortcut(e *edge) {
	if e.to.to(graph.OnTrue) == nil {
		return
	}
	if t := e.to.to(graph.OnTrue); t == e.to.to(graph.OnFalse) && !conflict(e.from, t) {
		o.progress()
		e.to = t
	}
again:
	for i := e.dom.next(0); i >= 0; i = e.dom.next(i + 1) {
		t := decided(e.to, o.edges[i])
		if t == nil || conflict(e.from, t) {
			continue
		}
		o.changed = true
		if e.to = t; t.to(graph.OnTrue) != nil {
			goto again
		}
		return
	}
}

// conflict tells whether a node would see other values if it came directly after from.
func conflict(from, to *node) bool {
	for a := range atoms {
		if to.out>>a&1 == 1 && from.values[a] != to.values[a] {
			return true
		}
	}
	return false
}

// decided returns where node b goes for packets that have taken edge e; nil if e does not determine
// it.
func decided(b *node, e *edge) *node {
	p := e.from
	if b.Last.Code != p.Last.Code || b.values[atomA] != p.values[atomA] {
		return nil
	}
	holds := e == &p.edges[graph.OnTrue]
	switch {
	case b.operand == p.operand && holds:
		return b.to(graph.OnTrue)
	case b.operand == p.operand:
		return b.to(graph.OnFalse)
	case holds && b.Last.Code == cbpf.Jeq: // A is equal to something else
		return b.to(graph.OnFalse)
	}
	return nil
}
