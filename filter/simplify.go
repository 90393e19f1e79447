package filter

import (
	"encoding/binary"
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// simplify removes what is computed twice, for nothing, or with a known result. It takes libpcap's steps in libpcap's order,
// because they can be seen from outside: a load that is left out, or done earlier, decides what becomes of a packet that ends
// before it. It gives back the new first block, and fails where the steps find a division by zero.
func simplify(root *block) *block {
	o := &optimizer{root: root}
	o.number()
	o.loop(false) // branches
	o.loop(true)  // statements
	o.merge()
	return o.skipRoot()
}

// branchRounds bounds the rounds in which branches only move, which need not come to an end.
const branchRounds = 100

func (o *optimizer) loop(statements bool) {
	for rounds := 0; rounds < branchRounds; rounds++ {
		o.changed, o.work = false, false
		o.analyse()
		o.round(statements)
		if !o.changed {
			return
		}
		if o.work {
			rounds = -1
		}
	}
}

func (o *optimizer) round(statements bool) {
	o.values.reset()
	o.findInEdges()
	o.down(func(b *block) { o.evaluate(b, statements) })
	if statements {
		return
	}
	o.up(func(b *block) {
		o.shortcut(&b.edges[onTrue])
		o.shortcut(&b.edges[onFalse])
	})
	o.findInEdges()
	o.up(func(b *block) {
		o.pullUp(b, onTrue)
		o.pullUp(b, onFalse)
	})
}

// progress notes a change that is more than a moved branch.
func (o *optimizer) progress() { o.changed, o.work = true, true }

// evaluate computes what is known behind a block, and simplifies its statements.
func (o *optimizer) evaluate(b *block, alter bool) {
	f := &b.flow
	for i, e := range f.in {
		if i == 0 {
			f.values = e.from.flow.values
			continue
		}
		for a := range f.values {
			if f.values[a] != e.from.flow.values[a] {
				f.values[a] = unknown
			}
		}
	}
	if len(f.in) == 0 {
		f.values = [atoms]int{}
	}
	before := f.values
	for _, s := range b.stmts {
		o.statement(s, &f.values, alter)
	}
	unchanged := func(a int) bool { return before[a] != unknown && f.values[a] == before[a] }
	if alter && (f.out == 0 && unchanged(atomA) && unchanged(atomX) || b.last.code&cbpf.ClassMask == cbpf.ClassRET) {
		if len(b.stmts) > 0 {
			b.stmts = nil
			o.progress()
		}
	} else {
		o.peephole(b)
		o.deleteDead(b)
	}
	if f.operand = f.values[atomX]; b.last.code&cbpf.SrcMask == cbpf.SrcK {
		f.operand = o.values.constant(b.last.k)
	}
}

// deleteDead removes stores that nothing reads.
func (o *optimizer) deleteDead(b *block) {
	var last [atoms]*stmt
	step := func(s *stmt) {
		for a := range last {
			if reads(s, a) {
				last[a] = nil
			}
		}
		if a := writes(s); a >= 0 {
			if last[a] != nil {
				last[a].code = nop
				o.progress()
			}
			last[a] = s
		}
	}
	for _, s := range b.stmts {
		step(s)
	}
	step(&b.last)
	for a, s := range last {
		if s != nil && b.flow.out>>a&1 == 0 {
			s.code = nop
			o.progress()
		}
	}
}

// merge makes equal blocks one. Going from the end it mostly sees successors first, and so whole equal tails in one pass.
func (o *optimizer) merge() {
	for again := true; again; {
		again = false
		o.markReachable()
		for _, b := range o.blocks {
			b.flow.same = nil
		}
		seen := map[string]*block{}
		for _, b := range slices.Backward(o.blocks) {
			if b.flow.mark != o.mark {
				continue
			}
			key := b.signature()
			if b.flow.same = seen[key]; b.flow.same == nil {
				seen[key] = b
			}
		}
		for _, b := range o.blocks {
			for k := range b.edges {
				if t := b.to(k); t != nil && t.flow.same != nil {
					b.edges[k].to, again = t.flow.same, true
				}
			}
		}
	}
}

func (o *optimizer) markReachable() {
	o.mark++
	var visit func(b *block)
	visit = func(b *block) {
		if b == nil || b.flow.mark == o.mark {
			return
		}
		b.flow.mark = o.mark
		visit(b.to(onTrue))
		visit(b.to(onFalse))
	}
	visit(o.root)
}

// signature is the same for blocks that do the same and go on to the same blocks.
func (b *block) signature() string {
	var key []byte
	add := func(v uint32) { key = binary.LittleEndian.AppendUint32(key, v) }
	for _, s := range b.stmts {
		if s.code != nop {
			add(uint32(s.code))
			add(s.k)
		}
	}
	add(uint32(b.last.code))
	add(b.last.k)
	for k := range b.edges {
		if t := b.to(k); t != nil {
			if t.flow.same != nil {
				t = t.flow.same
			}
			add(uint32(t.flow.id))
		}
	}
	return string(key)
}

// compact leaves deleted statements out.
func compact(stmts []*stmt) []*stmt {
	var out []*stmt
	for _, s := range stmts {
		if s.code != nop {
			out = append(out, s)
		}
	}
	return out
}

// skipRoot leaves tests at the start out whose result does not matter.
func (o *optimizer) skipRoot() *block {
	b := o.root
	stmts := b.stmts
	b.stmts = nil
	for b.last.code&cbpf.ClassMask == cbpf.ClassJMP && b.to(onTrue) == b.to(onFalse) {
		b = b.to(onTrue)
	}
	b.stmts = append(stmts, b.stmts...)
	if b.last.code&cbpf.ClassMask == cbpf.ClassRET {
		b.stmts = nil
	}
	return b
}
