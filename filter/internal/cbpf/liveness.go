package cbpf

import (
	"slices"
)

// An atom is a location that an instruction can read or write: M[0..15], which are the atoms 0 to
// 15, A and X.
const (
	atomA = ScratchWords
	atomX = ScratchWords + 1
	atoms = ScratchWords + 2 // the number of atoms
)

// findLiveness computes the sets of atoms of every node, from the last node to the first.
func (o *optimiser) findLiveness() {
	for _, n := range slices.Backward(o.order) {
		n.liveOut = 0
		for exit := range n.edges {
			if to := n.to(exit); to != nil {
				n.liveOut |= to.liveIn
			}
		}
		n.written, n.read = 0, 0
		for _, s := range n.stmts {
			n.read |= reads(s) &^ n.written
			n.written |= 1 << writes(s)
		}
		n.read |= reads(&n.last) &^ n.written
		n.liveIn = n.liveAtJump()
		for _, s := range slices.Backward(n.stmts) {
			n.liveIn = n.liveIn&^(1<<writes(s)) | reads(s)
		}
	}
}

// liveAtJump returns the atoms that are live after the node's statements.
func (n *node) liveAtJump() uint32 {
	if n.to(onTrue) == n.to(onFalse) { // a return's are both nil
		return n.liveOut
	}
	return n.liveOut | reads(&n.last)
}

// reads returns the atoms that an instruction reads.
func reads(s *stmt) uint32 {
	switch s.Code & ClassMask {
	case ClassRET:
		return 0
	case ClassLD, ClassLDX:
		switch s.Code & ModeMask {
		case ModeIND:
			return 1 << atomX
		case ModeMEM:
			return 1 << s.K
		}
		return 0
	case ClassST:
		return 1 << atomA
	case ClassSTX:
		return 1 << atomX
	case ClassMISC:
		if s.Code == Txa {
			return 1 << atomX
		}
		return 1 << atomA
	}
	if s.Code != Neg && s.Code&SrcMask == SrcX {
		return 1<<atomA | 1<<atomX
	}
	return 1 << atomA
}

// writes returns the atom that a statement changes.
func writes(s *stmt) int {
	switch s.Code & ClassMask {
	case ClassLDX:
		return atomX
	case ClassST, ClassSTX:
		return int(s.K)
	case ClassMISC:
		if s.Code == Tax {
			return atomX
		}
	}
	return atomA
}
