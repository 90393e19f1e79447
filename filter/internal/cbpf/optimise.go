package cbpf

// The optimiser makes a control-flow graph smaller and its paths shorter. It removes tests whose
// results are known, and calculations that are repeated, constant or not needed.
//
// The result is the same for every packet, truncated at any length; libpcap's optimizer does not
// guarantee that. A load ends the filter if the packet ends before its bytes, so a load is only
// removed if another one has shown that the packet has these bytes, or if both ways end with no
// match.
//
// optimise.go has the rounds. Three files analyse: node.go (order and dominators), value.go (which
// values are equal, and which bytes the packet has) and uses.go (which values are needed). The
// others rewrite: shorten.go (jumps), group.go (the order of tests), simplify.go (statements) and
// merge.go (equal nodes).

// optimise rewrites a graph, and returns its new first block.
//
// Each rewriting makes the graph smaller or a path shorter, so the rounds come to an end.
func optimise(first *block) *block {
	o := newOptimiser(first)
	o.repeat(o.shorten)
	o.analyse()
	o.group() // before simplify, because tests do not depend on each other yet
	o.repeat(o.shorten, o.simplify, o.merge)
	return o.finish()
}

// repeat runs passes until the graph stays the same.
func (o *optimiser) repeat(passes ...func()) {
	for o.changed = true; o.changed; {
		o.changed = false
		for _, pass := range passes {
			o.analyse()
			pass()
		}
	}
}

// analyse computes the states of each reachable node.
func (o *optimiser) analyse() {
	o.findOrder()
	o.findDominators()
	o.findValues()
	o.findUses()
}
