package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// peephole rewrites short sequences of statements: a store and a load of the same word; a sum
// before an indexed load; a subtraction, a mask or a known value before the jump.
func (o *optimiser) peephole(b *node) {
	if len(b.Stmts) == 0 {
		return
	}
	last := b.Stmts[0]
	for i, j := b.kept(0), 0; i < len(b.Stmts); i = j {
		if j = b.kept(i + 1); j == len(b.Stmts) {
			break
		}
		last = b.Stmts[j]
		o.pair(b, i, j)
	}
	if b.Last.Code == cbpf.Jeq && b.out>>atomA&1 == 0 {
		o.beforeEqual(b, last)
	}
	if b.Last.Code == cbpf.Jset {
		switch b.Last.K {
		case 0:
			b.edges[graph.OnTrue].to = b.to(graph.OnFalse)
		case ^uint32(0):
			b.edges[graph.OnFalse].to = b.to(graph.OnTrue)
		}
	}
	if x := o.numbering.constants[b.values[atomX]]; x.known && b.Last.Code&cbpf.SrcMask == cbpf.SrcX {
		b.Last.Code &^= cbpf.SrcX
		b.Last.K = x.k
	}
	if a := o.numbering.constants[b.values[atomA]]; a.known && b.Last.Code&cbpf.SrcMask == cbpf.SrcK {
		o.decide(b, a.k)
	}
}

// kept is the index of the first statement from i on that is not deleted.
func (b *node) kept(i int) int {
	for i < len(b.Stmts) && b.Stmts[i].Code == graph.Nop {
		i++
	}
	return i
}

// pair rewrites statement i and its neighbour j, and the sequence that they begin.
func (o *optimiser) pair(b *node, i, j int) {
	s, next := b.Stmts[i], b.Stmts[j]
	if s.Code == cbpf.St && next.Code == cbpf.LdxMem && s.K == next.K {
		next.Code = cbpf.Tax
		o.progress()
	}
	if s.Code == cbpf.LdImm && next.Code == cbpf.Tax {
		s.Code, next.Code = cbpf.LdxImm, cbpf.Txa
		o.progress()
	}
	if s.Code != cbpf.LdImm || b.out>>atomX&1 == 1 {
		return
	}
	// The constant of "ld #k; add x; tax; ld [x + n]", perhaps with "ldxb 4*([m]&0xf)" after the
	// first instruction, becomes part of the last load: "ld [x + n+k]".
	at := func(i int) *graph.Stmt {
		if i < len(b.Stmts) {
			return b.Stmts[i]
		}
		return &graph.Stmt{Code: graph.Nop}
	}
	add := j
	if next.Code == cbpf.LdxMsh {
		add = b.kept(j + 1)
	}
	tax := b.kept(add + 1)
	load := b.kept(tax + 1)
	if at(add).Code != cbpf.AddX || at(tax).Code != cbpf.Tax || at(load).Code == graph.Nop ||
		at(load).Code&cbpf.ClassMask != cbpf.ClassLD || at(load).Code&cbpf.ModeMask != cbpf.ModeIND {
		return
	}
	at(load).K += s.K
	s.Code, at(add).Code, at(tax).Code = graph.Nop, graph.Nop, graph.Nop
	o.progress()
}

// beforeEqual makes the last operation before a comparison with a constant part of the comparison.
func (o *optimiser) beforeEqual(b *node, last *graph.Stmt) {
	x := o.numbering.constants[b.values[atomX]]
	switch {
	case last.Code == cbpf.SubX && x.known:
		b.Last.K += x.k
	case last.Code == cbpf.SubX && b.Last.K == 0:
		b.Last.Code = cbpf.JeqX
	case last.Code == cbpf.Sub:
		b.Last.K += last.K
	case last.Code == cbpf.And && b.Last.K == 0:
		b.Last.K, b.Last.Code = last.K, cbpf.Jset
		b.edges[graph.OnTrue].to, b.edges[graph.OnFalse].to = b.to(graph.OnFalse), b.to(graph.OnTrue)
	default:
		return
	}
	last.Code = graph.Nop
	o.progress()
}

// decide points both exits to the jump's target, because A is known to be a.
func (o *optimiser) decide(b *node, a uint32) {
	if b.to(graph.OnFalse) != b.to(graph.OnTrue) {
		o.progress()
	}
	if cbpf.Jumps(b.Last.Code, a, b.Last.K) {
		b.edges[graph.OnFalse].to = b.to(graph.OnTrue)
	} else {
		b.edges[graph.OnTrue].to = b.to(graph.OnFalse)
	}
}
