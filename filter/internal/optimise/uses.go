package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// An atom is something that an instruction can read or write: M[0..15], A and X.
const (
	atomA  = cbpf.ScratchWords
	atomX  = cbpf.ScratchWords + 1
	atoms  = cbpf.ScratchWords + 2 // how many there are
	atomAX = atoms                 // both A and X
)

// findUses finds, for every node, the atoms that it and what follows it need.
func (o *optimiser) findUses() {
	o.down(func(b *node) {
		b.localUses()
		b.out = 0
	})
	o.up(func(b *node) {
		b.out |= b.to(graph.OnTrue).use | b.to(graph.OnFalse).use
		b.use |= b.out &^ b.kill
	})
}

// localUses finds the atoms that a node reads before it writes them, and those that it writes.
func (b *node) localUses() {
	var defined, use, kill uint32
	read := func(s *graph.Stmt) {
		for a := range atoms {
			if reads(s, a) && defined>>a&1 == 0 {
				use |= 1 << a
			}
		}
	}
	for _, s := range b.Stmts {
		read(s)
		if a := writes(s); a >= 0 {
			if use>>a&1 == 0 {
				kill |= 1 << a
			}
			defined |= 1 << a
		}
	}
	if b.Last.Code&cbpf.ClassMask == cbpf.ClassJMP {
		read(&b.Last)
	}
	b.use, b.kill = use, kill
}

// use is the atom that an instruction reads: one of them, atomAX, or -1.
func use(s *graph.Stmt) int {
	if s.Code == graph.Nop {
		return -1
	}
	switch s.Code & cbpf.ClassMask {
	case cbpf.ClassRET:
		switch s.Code & cbpf.RvalMask {
		case cbpf.RvalA:
			return atomA
		case cbpf.SrcX:
			return atomX
		}
		return -1
	case cbpf.ClassLD, cbpf.ClassLDX:
		switch s.Code & cbpf.ModeMask {
		case cbpf.ModeIND:
			return atomX
		case cbpf.ModeMEM:
			return int(s.K)
		}
		return -1
	case cbpf.ClassST:
		return atomA
	case cbpf.ClassSTX:
		return atomX
	case cbpf.ClassMISC:
		if s.Code == cbpf.Txa {
			return atomX
		}
		return atomA
	}
	if s.Code&cbpf.SrcMask == cbpf.SrcX {
		return atomAX
	}
	return atomA
}

// reads tells whether an instruction reads an atom.
func reads(s *graph.Stmt, atom int) bool {
	u := use(s)
	return u == atom || u == atomAX && (atom == atomA || atom == atomX)
}

// writes is the atom that an instruction changes, or -1.
func writes(s *graph.Stmt) int {
	if s.Code == graph.Nop {
		return -1
	}
	switch s.Code & cbpf.ClassMask {
	case cbpf.ClassLD, cbpf.ClassALU:
		return atomA
	case cbpf.ClassLDX:
		return atomX
	case cbpf.ClassST, cbpf.ClassSTX:
		return int(s.K)
	case cbpf.ClassMISC:
		if s.Code == cbpf.Tax {
			return atomX
		}
		return atomA
	}
	return -1
}
