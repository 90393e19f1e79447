package optimise

import "github.com/xdpcap/xdpcap/filter/internal/graph"

// pullUp groups tests of the same value. It looks at a chain of tests below node b that all leave
// to the same node on exit `same`: the tests of an "or" when they are true, the tests of an "and"
// when they are false. If all predecessors of b have tested a value v, and a test farther down the
// chain compares v again, that test moves up to the predecessors. The order of the tests in a chain
// does not change its result, and the moved test needs no load, because v was just loaded.
//
// The chain "v = 1 or w > 60 or v = 2", where v is a port, w the packet's length, and `same`
// OnTrue:
//
//	before                      after
//
//	p: v = 1 ? --true--> T      p: v = 1 ? --true--> T
//	   | false                     | false
//	b: w > 60? --true--> T      c: v = 2 ? --true--> T     c is pulled up, and needs no load
//	   | false                     | false
//	c: v = 2 ? --true--> T      b: w > 60? --true--> T
//	   | false                     | false
//	d: ...                      d: ...
//
// b may itself test v. Then the chain below it is searched for the first test of another value, and
// c moves in front of that.
func (o *optimiser) pullUp(b *node, same int) {
	in := b.in
	if len(in) == 0 {
		return
	}
	v := in[0].from.values[atomA]
	for _, e := range in[1:] {
		if e.from.values[atomA] != v {
			return
		}
	}
	first := &in[0].from.edges[graph.OnFalse]
	if in[0].from.to(graph.OnTrue) == b {
		first = &in[0].from.edges[graph.OnTrue]
	}
	chained := func(c *node) bool {
		return c != nil && c.to(same) == b.to(same) && c.dom.has(b.id)
	}
	// find goes down the chain from e. It returns the edge to the first test of v, or to the first
	// test of another value.
	find := func(e *edge, ofV bool) *edge {
		for ; chained(e.to); e = &e.to.edges[1-same] {
			if (e.to.values[atomA] == v) == ofV {
				return e
			}
		}
		return nil
	}
	place := find(first, false)
	if place == nil {
		return
	}
	above := find(&place.to.edges[1-same], true)
	if above == nil {
		return
	}
	pulled := above.to
	above.to = pulled.to(1 - same)
	pulled.edges[1-same].to = place.to
	if place != first {
		place.to = pulled
	} else { // all paths to b lead to the test now
		for _, e := range in {
			if e.from.to(graph.OnTrue) == b {
				e.from.edges[graph.OnTrue].to = pulled
			} else {
				e.from.edges[graph.OnFalse].to = pulled
			}
		}
	}
	o.changed = true
}
