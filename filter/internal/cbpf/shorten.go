package cbpf

// shorten makes an edge skip a node whose test has one possible result for the packets of the edge.
// An exit that is never taken gets the target of the other exit. Otherwise two tests could redirect
// it back and forth forever, because its state contradicts itself.
//
// The states were computed before the first edge moved. They stay valid, because a packet takes the
// same path as before without some nodes, whose results are not live.
func (o *optimiser) shorten() {
	for _, n := range o.order {
		taken, isKnown := o.values.rangeOf(n.test.a).decides(n.test, &o.values)
		for exit := range n.edges {
			if isKnown && exit != taken {
				continue
			}
			e := &n.edges[exit]
			for e.to != nil && !e.to.returns() {
				exit, ok := o.knownExit(e, e.to)
				if !ok || !o.canSkip(e, e.to, e.to.to(exit)) {
					break
				}
				e.to, o.changed = e.to.to(exit), true
			}
		}
		if isKnown && n.to(taken) != n.to(1-taken) {
			n.edges[1-taken].to, o.changed = n.to(taken), true
		}
	}
}

// canSkip reports whether packets of an edge may continue at node next without node n before it.
func (o *optimiser) canSkip(e *edge, n, next *node) bool {
	before := e.from.after
	for a := range atoms {
		if next.liveIn>>a&1 == 1 && n.written>>a&1 == 1 && before.held[a] != n.after.held[a] {
			return false
		}
	}
	if next.rejects() { // packets that are too short for n's loads end there, too
		return true
	}
	for _, l := range n.loads {
		if !before.reach.covers(l, &o.values) {
			return false
		}
	}
	return !n.mayDivide
}

// knownExit returns the exit of a node that all packets of an edge take. ok is false if it cannot
// be proved that they take the same one.
func (o *optimiser) knownExit(e *edge, n *node) (exit int, ok bool) {
	if n.to(onTrue) == n.to(onFalse) {
		return onTrue, true
	}
	t := n.test
	known := o.values.rangeOf(t.a)
	for ; e != nil && e.from != o.entry; e = e.up() {
		before := e.from.test
		if before == t {
			return e.exit, true
		}
		if before.a == t.a {
			known.narrow(before, e.exit == onTrue, &o.values)
		}
	}
	return known.decides(t, &o.values)
}

// test is a comparison: the jump's operation, the value of A, and the operand.
type test struct {
	jump       int
	a, operand value
}

// interval is the range of a value: it is at least `least` and at most `most`.
type interval struct{ least, most uint32 }

func (v *values) rangeOf(n value) interval {
	if k, ok := v.isConstant(n); ok {
		return interval{k, k}
	}
	return interval{0, v.bounds[n].most}
}

// narrow makes the interval smaller by the result of a test.
func (i *interval) narrow(t test, result bool, v *values) {
	k, ok := v.isConstant(t.operand)
	switch {
	case !ok:
	case t.jump == OpJeq && result:
		i.least, i.most = max(i.least, k), min(i.most, k)
	case t.jump == OpJgt && result && k+1 > k:
		i.least = max(i.least, k+1)
	case t.jump == OpJgt && !result:
		i.most = min(i.most, k)
	case t.jump == OpJge && result:
		i.least = max(i.least, k)
	case t.jump == OpJge && !result && k > 0:
		i.most = min(i.most, k-1)
	}
}

// decides returns the exit of a test, if it is the same for all numbers of the interval.
func (i interval) decides(t test, v *values) (exit int, ok bool) {
	k, constant := v.isConstant(t.operand)
	if !constant {
		return 0, false
	}
	low, high := Jumps(t.jump, i.least, k), Jumps(t.jump, i.most, k)
	switch t.jump {
	case OpJeq:
		ok = i.least == i.most || k < i.least || k > i.most
	case OpJset:
		ok = i.least == i.most || k == 0
	default:
		ok = low == high
	}
	if low {
		return onTrue, ok
	}
	return onFalse, ok
}
