package filter

import (
	"math/bits"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// atoms are the things an instruction can read or write: M[0..15], A and X.
const (
	atomA  = cbpf.ScratchWords
	atomX  = cbpf.ScratchWords + 1
	atoms  = cbpf.ScratchWords + 2
	atomAX = atoms // both A and X
)

// flow is what simplify knows of a block.
type flow struct {
	id      int
	mark    int
	level   int // length of the longest way to a return
	dom     bitset
	in      []*edge // edges that lead here
	values  [atoms]int
	operand int // value the jump compares A with

	use, kill, out uint32 // atoms read before written, written, needed behind the block
	same           *block // an equal block
}

// edge is one way out of a block.
type edge struct {
	to   *block
	from *block
	id   int
	dom  bitset // edges that every way through this one has taken
}

// bitset is a set of small numbers.
type bitset []uint64

func (s bitset) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s bitset) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s bitset) fill(word uint64) {
	for i := range s {
		s[i] = word
	}
}

func (s bitset) intersect(t bitset) {
	for i := range s {
		s[i] &= t[i]
	}
}

// next is the first member from i on, or -1.
func (s bitset) next(i int) int {
	for w := i / 64; w < len(s); w++ {
		if x := s[w] >> (i % 64); x != 0 {
			return i + bits.TrailingZeros64(x)
		}
		i = (w + 1) * 64
	}
	return -1
}

// optimizer holds the graph and the knowledge that is about all of it.
type optimizer struct {
	root    *block
	blocks  []*block
	edges   []*edge
	levels  [][]*block
	mark    int
	changed bool // in this round
	work    bool // changed otherwise than by moving branches
	values  values
}

// maxBlocks bounds the memory for sets of edges, which grows with the square: 128 MiB at the limit. So many tests do not become
// fewer than MaxInstructions.
const maxBlocks = 16384

// number collects the blocks. Edges get the numbers libpcap gives them: the order decides which of several shortcuts is taken.
func (o *optimizer) number() {
	o.mark++
	var visit func(b *block)
	visit = func(b *block) {
		if b == nil || b.flow.mark == o.mark {
			return
		}
		b.flow.mark = o.mark
		b.flow.id = len(o.blocks)
		o.blocks = append(o.blocks, b)
		visit(b.to(onTrue))
		visit(b.to(onFalse))
	}
	visit(o.root)
	n := len(o.blocks)
	if n > maxBlocks {
		fail(token{}, "join networks instead of hosts, or split the filter", "expression has %d tests, at most %d are possible", n, maxBlocks)
	}
	o.edges = make([]*edge, 2*n)
	for i, b := range o.blocks {
		b.flow.dom = make(bitset, n/64+1)
		for k := range b.edges {
			e := &b.edges[k]
			e.from, e.id, e.dom = b, k*n+i, make(bitset, 2*n/64+1)
			o.edges[e.id] = e
		}
	}
}

// analyse finds levels, dominators and liveness.
func (o *optimizer) analyse() {
	o.findLevels()
	o.findDominators()
	o.findUses()
}

func (o *optimizer) findLevels() {
	o.mark++
	o.levels = o.levels[:0]
	var visit func(b *block)
	visit = func(b *block) {
		if b.flow.mark == o.mark {
			return
		}
		b.flow.mark = o.mark
		b.flow.level = 0
		if b.to(onTrue) != nil {
			visit(b.to(onTrue))
			visit(b.to(onFalse))
			b.flow.level = max(b.to(onTrue).flow.level, b.to(onFalse).flow.level) + 1
		}
		for len(o.levels) <= b.flow.level {
			o.levels = append(o.levels, nil)
		}
		o.levels[b.flow.level] = append(o.levels[b.flow.level], b)
	}
	visit(o.root)
}

// each visits the blocks of a level, the one found last first.
func (o *optimizer) each(level int, f func(b *block)) {
	l := o.levels[level]
	for i := len(l) - 1; i >= 0; i-- {
		f(l[i])
	}
}

// down visits every block after all those that lead to it.
func (o *optimizer) down(f func(b *block)) {
	for level := len(o.levels) - 1; level >= 0; level-- {
		o.each(level, f)
	}
}

// up visits every block that has successors, after them.
func (o *optimizer) up(f func(b *block)) {
	for level := 1; level < len(o.levels); level++ {
		o.each(level, f)
	}
}

func (o *optimizer) findDominators() {
	for _, b := range o.blocks {
		b.flow.dom.fill(^uint64(0))
		for k := range b.edges {
			b.edges[k].dom.fill(^uint64(0))
		}
	}
	o.root.flow.dom.fill(0)
	for k := range o.root.edges {
		o.root.edges[k].dom.fill(0)
	}
	o.down(func(b *block) {
		b.flow.dom.add(b.flow.id)
		for k := range b.edges {
			e := &b.edges[k]
			e.dom.add(e.id)
			if e.to == nil {
				continue
			}
			e.to.flow.dom.intersect(b.flow.dom)
			e.to.edges[onTrue].dom.intersect(e.dom)
			e.to.edges[onFalse].dom.intersect(e.dom)
		}
	})
}

func (o *optimizer) findInEdges() {
	for _, b := range o.blocks {
		b.flow.in = b.flow.in[:0]
	}
	// libpcap prepends; prepending would cost a copy here, so the lists are turned round afterwards.
	o.down(func(b *block) {
		if b.to(onTrue) == nil {
			return
		}
		for k := range b.edges {
			t := b.to(k)
			t.flow.in = append(t.flow.in, &b.edges[k])
		}
	})
	for _, b := range o.blocks {
		for i, j := 0, len(b.flow.in)-1; i < j; i, j = i+1, j-1 {
			b.flow.in[i], b.flow.in[j] = b.flow.in[j], b.flow.in[i]
		}
	}
}

func (o *optimizer) findUses() {
	o.down(func(b *block) {
		b.localUses()
		b.flow.out = 0
	})
	o.up(func(b *block) {
		f := &b.flow
		f.out |= b.to(onTrue).flow.use | b.to(onFalse).flow.use
		f.use |= f.out &^ f.kill
	})
}

func (b *block) localUses() {
	var defined, use, kill uint32
	read := func(s *stmt) {
		for a := range atoms {
			if reads(s, a) && defined>>a&1 == 0 {
				use |= 1 << a
			}
		}
	}
	for _, s := range b.stmts {
		read(s)
		if a := writes(s); a >= 0 {
			if use>>a&1 == 0 {
				kill |= 1 << a
			}
			defined |= 1 << a
		}
	}
	if b.last.code&cbpf.ClassMask == cbpf.ClassJMP {
		read(&b.last)
	}
	b.flow.use, b.flow.kill = use, kill
}

// use is the atom an instruction reads: one, atomAX or -1.
func use(s *stmt) int {
	if s.code == nop {
		return -1
	}
	switch s.code & cbpf.ClassMask {
	case cbpf.ClassRET:
		switch s.code & cbpf.RvalMask {
		case cbpf.RvalA:
			return atomA
		case cbpf.SrcX:
			return atomX
		}
		return -1
	case cbpf.ClassLD, cbpf.ClassLDX:
		switch s.code & cbpf.ModeMask {
		case cbpf.ModeIND:
			return atomX
		case cbpf.ModeMEM:
			return int(s.k)
		}
		return -1
	case cbpf.ClassST:
		return atomA
	case cbpf.ClassSTX:
		return atomX
	case cbpf.ClassMISC:
		if s.code == cbpf.Txa {
			return atomX
		}
		return atomA
	}
	if s.code&cbpf.SrcMask == cbpf.SrcX {
		return atomAX
	}
	return atomA
}

func reads(s *stmt, atom int) bool {
	u := use(s)
	return u == atom || u == atomAX && (atom == atomA || atom == atomX)
}

// writes is the atom an instruction changes, or -1.
func writes(s *stmt) int {
	if s.code == nop {
		return -1
	}
	switch s.code & cbpf.ClassMask {
	case cbpf.ClassLD, cbpf.ClassALU:
		return atomA
	case cbpf.ClassLDX:
		return atomX
	case cbpf.ClassST, cbpf.ClassSTX:
		return int(s.k)
	case cbpf.ClassMISC:
		if s.code == cbpf.Tax {
			return atomX
		}
		return atomA
	}
	return -1
}
