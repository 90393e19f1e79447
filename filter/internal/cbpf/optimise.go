package cbpf

// The optimiser makes a control-flow graph smaller and its paths shorter. It removes tests whose
// results are known, and calculations that are repeated, constant or unused.
//
// The result is the same for every packet, truncated at any length; libpcap's optimizer does not
// guarantee that. A load ends the filter if the packet ends before its bytes, so a load is only
// removed if an earlier load has proved that the packet has these bytes, or if a short packet is
// rejected with and without it.
//
// Three files analyse: node.go (order and dominators), value.go (equal values, and the bytes that
// the packet is known to have) and liveness.go. Four rewrite: shorten.go (jumps), group.go (the
// order of tests), simplify.go (statements) and merge.go (equal nodes).

// optimise rewrites a graph, and returns its new first block. Each rewriting makes the graph
// smaller or a path shorter, so the rounds end.
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
	o.findLiveness()
}
