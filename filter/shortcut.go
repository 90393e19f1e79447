package filter

import "github.com/xdpcap/xdpcap/filter/internal/cbpf"

// shortcut makes an edge skip blocks whose test has a known result when they are reached through it.
func (o *optimizer) shortcut(e *edge) {
	if e.to.to(onTrue) == nil {
		return
	}
	if t := e.to.to(onTrue); t == e.to.to(onFalse) && !conflict(e.from, t) {
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
		if e.to = t; t.to(onTrue) != nil {
			goto again
		}
		return
	}
}

// conflict tells whether a block would see other values if it followed from directly.
func conflict(from, to *block) bool {
	for a := range atoms {
		if to.flow.out>>a&1 == 1 && from.flow.values[a] != to.flow.values[a] {
			return true
		}
	}
	return false
}

// decided is where b goes if edge e was taken before; nil if that says nothing.
func decided(b *block, e *edge) *block {
	p := e.from
	if b.last.code != p.last.code || b.flow.values[atomA] != p.flow.values[atomA] {
		return nil
	}
	holds := e == &p.edges[onTrue]
	switch {
	case b.flow.operand == p.flow.operand && holds:
		return b.to(onTrue)
	case b.flow.operand == p.flow.operand:
		return b.to(onFalse)
	case holds && b.last.code == cbpf.ClassJMP|cbpf.OpJeq: // equal to something else
		return b.to(onFalse)
	}
	return nil
}

// pullUp moves a test of the value that b's predecessors tested up to them, over tests of other values: on a chain of tests
// that leave to the same block when true (or false).
func (o *optimizer) pullUp(b *block, same int) {
	in := b.flow.in
	if len(in) == 0 {
		return
	}
	val := in[0].from.flow.values[atomA]
	for _, e := range in[1:] {
		if e.from.flow.values[atomA] != val {
			return
		}
	}
	first := &in[0].from.edges[onFalse]
	if in[0].from.to(onTrue) == b {
		first = &in[0].from.edges[onTrue]
	}
	chained := func(c *block) bool {
		return c != nil && c.to(same) == b.to(same) && c.flow.dom.has(b.flow.id)
	}
	other, top := first, true
	for ; ; other, top = &other.to.edges[1-same], false {
		if !chained(other.to) {
			return
		}
		if other.to.flow.values[atomA] != val {
			break
		}
	}
	found := &other.to.edges[1-same]
	for ; ; found = &found.to.edges[1-same] {
		if !chained(found.to) {
			return
		}
		if found.to.flow.values[atomA] == val {
			break
		}
	}
	pulled := found.to
	found.to = pulled.to(1 - same)
	pulled.edges[1-same].to = other.to
	if !top {
		other.to = pulled
	} else {
		for _, e := range in {
			if e.from.to(onTrue) == b {
				e.from.edges[onTrue].to = pulled
			} else {
				e.from.edges[onFalse].to = pulled
			}
		}
	}
	o.changed = true
}
