package code

import (
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// An atom is a location that an instruction can read or write: M[0..15], A and X.
const (
	atomA = cbpf.ScratchWords
	atomX = cbpf.ScratchWords + 1
	atoms = cbpf.ScratchWords + 2 // the number of atoms
)

// findUses finds, for every node, the atoms that it and its successors need.
func (o *optimiser) findUses() {
	for _, n := range slices.Backward(o.order) {
		n.out = 0
		for exit := range n.edges {
			if to := n.to(exit); to != nil {
				n.out |= to.use
			}
		}
		n.written, n.read = 0, 0
		for _, s := range n.Stmts {
			n.read |= uses(s) &^ n.written
			n.written |= 1 << writes(s)
		}
		n.read |= uses(&n.Last) &^ n.written
		n.use = n.jumpUses()
		for _, s := range slices.Backward(n.Stmts) {
			n.use = n.use&^(1<<writes(s)) | uses(s)
		}
	}
}

// jumpUses returns the atoms that are needed after the node's statements.
func (n *node) jumpUses() uint32 {
	if n.to(OnTrue) == n.to(OnFalse) { // a return's are both nil
		return n.out
	}
	return n.out | uses(&n.Last)
}

// uses returns the atoms that an instruction reads.
func uses(s *Stmt) uint32 {
	switch s.Code & cbpf.ClassMask {
	case cbpf.ClassRET:
		return 0
	case cbpf.ClassLD, cbpf.ClassLDX:
		switch s.Code & cbpf.ModeMask {
		case cbpf.ModeIND:
			return 1 << atomX
		case cbpf.ModeMEM:
			return 1 << s.K
		}
		return 0
	case cbpf.ClassST:
		return 1 << atomA
	case cbpf.ClassSTX:
		return 1 << atomX
	case cbpf.ClassMISC:
		if s.Code == cbpf.Txa {
			return 1 << atomX
		}
		return 1 << atomA
	}
	if s.Code != cbpf.Neg && s.Code&cbpf.SrcMask == cbpf.SrcX {
		return 1<<atomA | 1<<atomX
	}
	return 1 << atomA
}

// writes returns the atom that a statement changes.
func writes(s *Stmt) int {
	switch s.Code & cbpf.ClassMask {
	case cbpf.ClassLDX:
		return atomX
	case cbpf.ClassST, cbpf.ClassSTX:
		return int(s.K)
	case cbpf.ClassMISC:
		if s.Code == cbpf.Tax {
			return atomX
		}
	}
	return atomA
}
