// Package optimise is the fourth stage: it makes a control-flow graph smaller by removing
// duplicate, unused and constant calculations.
//
// It takes libpcap's steps in libpcap's order, because users can see a difference: moving or
// removing a load changes the result for packets that end before its bytes.
//
// optimise.go has the passes, and what they do with one block. Three files compute what the passes
// need: numbering.go (which values are equal), order.go (levels and dominators) and uses.go (which
// values are needed). The others rewrite: peephole.go (statements), shortcut.go and pullup.go
// (branches), and merge.go (equal blocks).
package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// Graph rewrites a graph, and returns its new first block. It raises a fault if it finds a division
// by zero.
func Graph(first *graph.Block) *graph.Block {
	o := newOptimiser(first)
	o.repeat(o.moveBranches)
	o.repeat(o.rewriteStatements)
	o.merge()
	o.skipRoot()
	return o.finish()
}

// maxIdleRounds limits the consecutive rounds that only move branches. Two moves can undo each
// other, so moving branches may never end.
const maxIdleRounds = 100

// repeat runs a pass until it changes nothing.
func (o *optimiser) repeat(pass func()) {
	for idle := 0; idle < maxIdleRounds; idle++ {
		o.changed, o.work = false, false
		o.findLevels()
		o.findDominators()
		o.findUses()
		pass()
		if !o.changed {
			return
		}
		if o.work {
			idle = -1
		}
	}
}

// moveBranches makes jumps skip tests whose result is known.
func (o *optimiser) moveBranches() {
	o.numbering.reset()
	o.findInEdges()
	o.down(func(b *node) { o.evaluate(b, false) })
	o.up(func(b *node) {
		o.shortcut(&b.edges[graph.OnTrue])
		o.shortcut(&b.edges[graph.OnFalse])
	})
	o.findInEdges()
	o.up(func(b *node) {
		o.pullUp(b, graph.OnTrue)
		o.pullUp(b, graph.OnFalse)
	})
}

// rewriteStatements simplifies what the blocks compute.
func (o *optimiser) rewriteStatements() {
	o.numbering.reset()
	o.findInEdges()
	o.down(func(b *node) { o.evaluate(b, true) })
}

// progress records a change other than a moved branch.
func (o *optimiser) progress() { o.changed, o.work = true, true }

// evaluate computes the values after a block from those after its predecessors. If alter is set, it
// uses them to simplify the block's statements.
func (o *optimiser) evaluate(b *node, alter bool) {
	for i, e := range b.in {
		if i == 0 {
			b.values = e.from.values
			continue
		}
		for a := range b.values {
			if b.values[a] != e.from.values[a] {
				b.values[a] = unknown
			}
		}
	}
	if len(b.in) == 0 {
		b.values = [atoms]int{} // all unknown
	}
	before := b.values
	for _, s := range b.Stmts {
		o.statement(s, &b.values, alter)
	}
	unchanged := func(a int) bool { return before[a] != unknown && b.values[a] == before[a] }
	if alter && (b.out == 0 && unchanged(atomA) && unchanged(atomX) || b.Last.Code&cbpf.ClassMask == cbpf.ClassRET) {
		if len(b.Stmts) > 0 {
			b.Stmts = nil
			o.progress()
		}
	} else {
		o.peephole(b)
		o.deleteDead(b)
	}
	if b.operand = b.values[atomX]; b.Last.Code&cbpf.SrcMask == cbpf.SrcK {
		b.operand = o.numbering.ofConstant(b.Last.K)
	}
}

// deleteDead removes statements that write atoms which nothing reads.
func (o *optimiser) deleteDead(b *node) {
	var last [atoms]*graph.Stmt
	step := func(s *graph.Stmt) {
		for a := range last {
			if reads(s, a) {
				last[a] = nil
			}
		}
		if a := writes(s); a >= 0 {
			if last[a] != nil {
				last[a].Code = graph.Nop
				o.progress()
			}
			last[a] = s
		}
	}
	for _, s := range b.Stmts {
		step(s)
	}
	step(&b.Last)
	for a, s := range last {
		if s != nil && b.out>>a&1 == 0 {
			s.Code = graph.Nop
			o.progress()
		}
	}
}
