package cbpf

import (
	"slices"
)

// simplify rewrites the statements of the nodes. It first removes statements that compute a value
// which their atom already has. Later code then reads the result of an earlier statement, so
// liveness is computed again, before statements with unread results are removed.
func (o *optimiser) simplify() {
	for _, n := range o.order {
		o.simplifyStatements(n)
	}
	o.findLiveness()
	for _, n := range o.order {
		if n != o.entry && !n.returns() {
			o.simplifyJump(n)
			o.simplifyAddress(n)
			o.removeUnused(n)
		}
	}
}

// simplifyStatements removes statements without effect, and replaces statements whose result or
// operand is a constant.
func (o *optimiser) simplifyStatements(n *node) {
	at := n.before.clone()
	n.stmts = slices.DeleteFunc(n.stmts, func(s *stmt) bool {
		was, x := at.held[writes(s)], at.held[atomX]
		e := o.apply(s, &at)
		if e.result == was && !e.mayEnd() {
			o.changed = true
			return true
		}
		o.simplifyStatement(s, e, x, at.held)
		return false
	})
}

// simplifyStatement replaces a statement by a simpler one, if there is one. x is the value of X
// before the statement; after are the values after it.
func (o *optimiser) simplifyStatement(s *stmt, e effect, x value, after [atoms]value) {
	simpler := *s
	class := s.Code & ClassMask
	result, constant := o.values.isConstant(e.result)
	operand, known := o.values.isConstant(x)
	switch {
	case class == ClassST, class == ClassSTX:
	case e.mayEnd() && (class == ClassALU || !known): // it must stay
	case constant && writes(s) == atomX:
		simpler = stmt{Code: LdxImm, K: result}
	case constant:
		simpler = stmt{Code: LdImm, K: result}
	case s.Code == LdxMem && e.result == after[atomA]: // A has the value already
		simpler = stmt{Code: Tax}
	case s.Code == LdMem && e.result == x: // X has the value already
		simpler = stmt{Code: Txa}
	case class == ClassALU && s.Code != Neg && s.Code&SrcMask == SrcX && known:
		simpler.Code, simpler.K = s.Code&^SrcMask, operand
	case class == ClassLD && s.Code&ModeMask == ModeIND && known && s.K+operand >= s.K: // no overflow
		simpler.Code, simpler.K = s.Code&^ModeMask|ModeABS, s.K+operand
	}
	if simpler != *s {
		*s, o.changed = simpler, true
	}
}

// simplifyJump replaces a constant X in the comparison of a jump, and joins a calculation before it
// into the comparison: "sub #1; jeq #2" becomes "jeq #3".
func (o *optimiser) simplifyJump(n *node) {
	jump := n.last
	if k, ok := o.values.isConstant(n.after.held[atomX]); ok && jump.Code&SrcMask == SrcX {
		jump = stmt{Code: jump.Code &^ SrcMask, K: k}
	}
	isLive := n.liveOut>>atomA&1 != 0 // the content of A
	if at := len(n.stmts) - 1; at >= 0 && jump.Code == Jeq && !isLive {
		last := *n.stmts[at]
		isJoined, swap := true, false
		switch {
		case last.Code == Sub:
			jump.K += last.K
		case last.Code == SubX && jump.K == 0:
			jump = stmt{Code: JeqX}
		case last.Code == And && jump.K == 0:
			jump, swap = stmt{Code: Jset, K: last.K}, true
		default:
			isJoined = false
		}
		if isJoined {
			n.stmts = n.stmts[:at]
		}
		if swap {
			n.edges[onTrue].to, n.edges[onFalse].to = n.to(onFalse), n.to(onTrue)
		}
	}
	if jump != n.last {
		n.last, o.changed = jump, true
	}
}

// simplifyAddress joins "add #c; tax; ld [x + k]" to "tax; ld [x + k+c]". An addition is modulo
// 2^32, but the address of a load is not, so the sum must always be less than 2^32.
func (o *optimiser) simplifyAddress(n *node) {
	at := n.before.clone()
	for i, add := range n.stmts {
		sum := at.held[atomA]
		o.apply(add, &at)
		if i+2 >= len(n.stmts) || add.Code != Add || n.stmts[i+1].Code != Tax {
			continue
		}
		load := n.stmts[i+2]
		later := n.liveAtJump() // the atoms that are live after the load
		for _, s := range slices.Backward(n.stmts[i+3:]) {
			later = later&^(1<<writes(s)) | reads(s)
		}
		if load.Code&ClassMask == ClassLD && load.Code&ModeMask == ModeIND && later>>atomX&1 == 0 &&
			uint64(o.values.bounds[sum].most)+uint64(add.K)+uint64(load.K) < 1<<32 {
			load.K += add.K
			n.stmts = slices.Delete(n.stmts, i, i+1)
			o.changed = true
			return
		}
	}
}

// removeUnused removes statements with unread results, unless they may end the filter.
func (o *optimiser) removeUnused(n *node) {
	at := n.before.clone()
	mayEnd := make([]bool, len(n.stmts))
	for i, s := range n.stmts {
		e := o.apply(s, &at)
		mayEnd[i] = e.mayEnd()
	}
	live := n.liveAtJump()
	var kept []*stmt // the last one first
	for i, s := range slices.Backward(n.stmts) {
		if live>>writes(s)&1 == 0 && !mayEnd[i] {
			o.changed = true
			continue
		}
		live = live&^(1<<writes(s)) | reads(s)
		kept = append(kept, s)
	}
	slices.Reverse(kept)
	n.stmts = kept
}
