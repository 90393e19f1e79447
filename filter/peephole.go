package filter

import "github.com/xdpcap/xdpcap/filter/internal/cbpf"

// peephole rewrites short sequences: a store and load of the same word, the sum in front of an indexed load, the subtraction,
// mask or known value in front of the jump.
func (o *optimizer) peephole(b *block) {
	if len(b.stmts) == 0 {
		return
	}
	last := b.stmts[0]
	for i, j := o.this(b, 0), 0; i < len(b.stmts); i = j {
		if j = o.this(b, i+1); j == len(b.stmts) {
			break
		}
		last = b.stmts[j]
		o.pair(b, i, j)
	}
	if b.last.code == cbpf.ClassJMP|cbpf.OpJeq && b.flow.out>>atomA&1 == 0 {
		o.beforeEqual(b, last)
	}
	if b.last.code == cbpf.ClassJMP|cbpf.OpJset {
		switch b.last.k {
		case 0:
			b.edges[onTrue].to = b.to(onFalse)
		case ^uint32(0):
			b.edges[onFalse].to = b.to(onTrue)
		}
	}
	if x := o.values.consts[b.flow.values[atomX]]; x.is && b.last.code&cbpf.SrcMask == cbpf.SrcX {
		b.last.code &^= cbpf.SrcX
		b.last.k = x.v
	}
	if a := o.values.consts[b.flow.values[atomA]]; a.is && b.last.code&cbpf.SrcMask == cbpf.SrcK {
		o.decide(b, a.v)
	}
}

// this is the first statement from i on that is not deleted.
func (o *optimizer) this(b *block, i int) int {
	for i < len(b.stmts) && b.stmts[i].code == nop {
		i++
	}
	return i
}

// pair looks at two neighbours.
func (o *optimizer) pair(b *block, i, j int) {
	s, next := b.stmts[i], b.stmts[j]
	if s.code == cbpf.ClassST && next.code == cbpf.LdxMem && s.k == next.k {
		next.code = cbpf.Tax
		o.progress()
	}
	if s.code == cbpf.LdImm && next.code == cbpf.Tax {
		s.code, next.code = cbpf.LdxImm, cbpf.Txa
		o.progress()
	}
	if s.code != cbpf.LdImm || b.flow.out>>atomX&1 == 1 {
		return
	}
	// ld #k; [ldxb 4*([n]&0xf)]; add x; tax; ld [x + n]: the constant goes into the load.
	at := func(i int) *stmt {
		if i < len(b.stmts) {
			return b.stmts[i]
		}
		return &stmt{code: nop}
	}
	add := j
	if next.code == cbpf.LdxMsh {
		add = o.this(b, j+1)
	}
	tax := o.this(b, add+1)
	load := o.this(b, tax+1)
	if at(add).code != cbpf.ClassALU|cbpf.OpAdd|cbpf.SrcX || at(tax).code != cbpf.Tax || at(load).code == nop ||
		at(load).code&cbpf.ClassMask != cbpf.ClassLD || at(load).code&cbpf.ModeMask != cbpf.ModeIND {
		return
	}
	at(load).k += s.k
	s.code, at(add).code, at(tax).code = nop, nop, nop
	o.progress()
}

// beforeEqual moves the last operation into the comparison with a constant.
func (o *optimizer) beforeEqual(b *block, last *stmt) {
	x := o.values.consts[b.flow.values[atomX]]
	switch {
	case last.code == cbpf.ClassALU|cbpf.OpSub|cbpf.SrcX && x.is:
		b.last.k += x.v
	case last.code == cbpf.ClassALU|cbpf.OpSub|cbpf.SrcX && b.last.k == 0:
		b.last.code = cbpf.ClassJMP | cbpf.OpJeq | cbpf.SrcX
	case last.code == cbpf.ClassALU|cbpf.OpSub:
		b.last.k += last.k
	case last.code == cbpf.ClassALU|cbpf.OpAnd && b.last.k == 0:
		b.last.k, b.last.code = last.k, cbpf.ClassJMP|cbpf.OpJset
		b.edges[onTrue].to, b.edges[onFalse].to = b.to(onFalse), b.to(onTrue)
	default:
		return
	}
	last.code = nop
	o.progress()
}

// decide makes both exits the one that a known A takes.
func (o *optimizer) decide(b *block, a uint32) {
	if b.to(onFalse) != b.to(onTrue) {
		o.progress()
	}
	if cbpf.Jumps(b.last.code, a, b.last.k) {
		b.edges[onFalse].to = b.to(onTrue)
	} else {
		b.edges[onTrue].to = b.to(onFalse)
	}
}
