package filter

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
	if b.last.code == classJMP|opJeq && b.flow.out>>atomA&1 == 0 {
		o.beforeEqual(b, last)
	}
	if b.last.code == classJMP|opJset {
		switch b.last.k {
		case 0:
			b.edges[onTrue].to = b.to(onFalse)
		case ^uint32(0):
			b.edges[onFalse].to = b.to(onTrue)
		}
	}
	if x := o.values.consts[b.flow.values[atomX]]; x.is && b.last.code&srcMask == srcX {
		b.last.code &^= srcX
		b.last.k = x.v
	}
	if a := o.values.consts[b.flow.values[atomA]]; a.is && b.last.code&srcMask == srcK {
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
	if s.code == classST && next.code == insLdxMem && s.k == next.k {
		next.code = insTax
		o.progress()
	}
	if s.code == insLdImm && next.code == insTax {
		s.code, next.code = insLdxImm, insTxa
		o.progress()
	}
	if s.code != insLdImm || b.flow.out>>atomX&1 == 1 {
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
	if next.code == insLdxMsh {
		add = o.this(b, j+1)
	}
	tax := o.this(b, add+1)
	load := o.this(b, tax+1)
	if at(add).code != classALU|opAdd|srcX || at(tax).code != insTax || at(load).code == nop ||
		at(load).code&classMask != classLD || at(load).code&modeMask != modeIND {
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
	case last.code == classALU|opSub|srcX && x.is:
		b.last.k += x.v
	case last.code == classALU|opSub|srcX && b.last.k == 0:
		b.last.code = classJMP | opJeq | srcX
	case last.code == classALU|opSub:
		b.last.k += last.k
	case last.code == classALU|opAnd && b.last.k == 0:
		b.last.k, b.last.code = last.k, classJMP|opJset
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
	if jumps(b.last.code, a, b.last.k) {
		b.edges[onFalse].to = b.to(onTrue)
	} else {
		b.edges[onTrue].to = b.to(onFalse)
	}
}

// jumps is whether a conditional jump is taken.
func jumps(code int, a, b uint32) bool {
	switch code & opMask {
	case opJeq:
		return a == b
	case opJgt:
		return a > b
	case opJge:
		return a >= b
	default:
		return a&b != 0
	}
}
