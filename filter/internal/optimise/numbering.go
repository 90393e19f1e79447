package optimise

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/fault"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
)

// unknown is the number of a value that nothing is known about. Two unknown values need not be
// equal.
const unknown = 0

// numbering gives numbers to the values that instructions compute. Values with equal numbers are
// equal at run time.
type numbering struct {
	numbers   map[expression]int
	constants []constant // by value number
}

// expression is an opcode and its operands, which are constants or value numbers.
type expression struct {
	code int
	x, y uint32
}

// constant tells whether a value is known.
type constant struct {
	known bool // it is always k
	k     uint32
}

// reset forgets all values.
func (v *numbering) reset() {
	v.numbers = map[expression]int{}
	v.constants = append(v.constants[:0], constant{})
}

// of is the number of an expression's value.
func (v *numbering) of(code int, x, y uint32) int {
	e := expression{code, x, y}
	if n, ok := v.numbers[e]; ok {
		return n
	}
	n := len(v.constants)
	v.numbers[e] = n
	v.constants = append(v.constants, constant{known: code == cbpf.LdImm, k: x})
	return n
}

// ofConstant is the number of a constant value.
func (v *numbering) ofConstant(k uint32) int { return v.of(cbpf.LdImm, k, 0) }

// set records that a statement writes value n to an atom. If alter is set and the atom already has
// that value, set deletes the statement.
func set(s *graph.Stmt, to *int, n int, alter bool) {
	if alter && n != unknown && *to == n {
		s.Code = graph.Nop
		return
	}
	*to = n
}

// statement updates val with the effect of one statement. If alter is set, it simplifies the
// statement by what is known before it.
func (o *optimiser) statement(s *graph.Stmt, val *[atoms]int, alter bool) {
	if s.Code == graph.Nop {
		return
	}
	v := &o.numbering
	switch s.Code & cbpf.ClassMask {
	case cbpf.ClassLD:
		o.loadStatement(s, val, alter)
	case cbpf.ClassLDX:
		switch s.Code {
		case cbpf.LdxImm:
			set(s, &val[atomX], v.ofConstant(s.K), alter)
		case cbpf.LdxMsh:
			set(s, &val[atomX], v.of(s.Code, s.K, 0), alter)
		case cbpf.LdxMem:
			n := val[s.K]
			if alter && v.constants[n].known {
				s.Code, s.K = cbpf.LdxImm, v.constants[n].k
				o.progress()
			}
			set(s, &val[atomX], n, alter)
		}
	case cbpf.ClassST:
		set(s, &val[s.K], val[atomA], alter)
	case cbpf.ClassSTX:
		set(s, &val[s.K], val[atomX], alter)
	case cbpf.ClassALU:
		o.arithmetic(s, val, alter)
	case cbpf.ClassMISC:
		if s.Code == cbpf.Tax {
			set(s, &val[atomX], val[atomA], alter)
		} else {
			set(s, &val[atomA], val[atomX], alter)
		}
	}
}

// loadStatement is statement for loads into A.
func (o *optimiser) loadStatement(s *graph.Stmt, val *[atoms]int, alter bool) {
	v := &o.numbering
	n := 0
	switch s.Code & cbpf.ModeMask {
	case cbpf.ModeABS:
		n = v.of(s.Code, s.K, 0)
	case cbpf.ModeIND:
		x := val[atomX]
		if alter && v.constants[x].known {
			s.Code = cbpf.LdAbs | s.Code&cbpf.SizeMask
			s.K += v.constants[x].k
			n = v.of(s.Code, s.K, 0)
			o.progress()
		} else {
			n = v.of(s.Code, s.K, uint32(x))
		}
	case cbpf.ModeLEN:
		n = v.of(s.Code, 0, 0)
	case cbpf.ModeIMM:
		n = v.ofConstant(s.K)
	case cbpf.ModeMEM:
		n = val[s.K]
		if alter && v.constants[n].known {
			s.Code, s.K = cbpf.LdImm, v.constants[n].k
			o.progress()
		}
	}
	set(s, &val[atomA], n, alter)
}

// arithmetic is statement for calculations with A.
func (o *optimiser) arithmetic(s *graph.Stmt, val *[atoms]int, alter bool) {
	v := &o.numbering
	switch {
	case s.Code == cbpf.Neg:
		if a := v.constants[val[atomA]]; alter && a.known {
			s.Code, s.K = cbpf.LdImm, -a.k
			val[atomA] = v.ofConstant(s.K)
		} else {
			val[atomA] = v.of(s.Code, uint32(val[atomA]), 0)
		}
	case s.Code&cbpf.SrcMask == cbpf.SrcK:
		o.arithmeticK(s, val, alter)
	default:
		o.arithmeticX(s, val, alter)
	}
}

// arithmeticK is arithmetic with a constant operand.
func (o *optimiser) arithmeticK(s *graph.Stmt, val *[atoms]int, alter bool) {
	v := &o.numbering
	if alter && s.K == 0 {
		switch s.Code & cbpf.OpMask {
		case cbpf.OpAdd, cbpf.OpLsh, cbpf.OpRsh, cbpf.OpOr, cbpf.OpXor:
			s.Code = graph.Nop
			return
		case cbpf.OpMul, cbpf.OpAnd:
			s.Code = cbpf.LdImm
			val[atomA] = v.ofConstant(0)
			return
		case cbpf.OpDiv, cbpf.OpMod:
			fault.Raise("", "division by zero")
		}
	}
	if a := v.constants[val[atomA]]; alter && a.known {
		o.fold(s, a.k, s.K)
		val[atomA] = v.ofConstant(s.K)
		return
	}
	val[atomA] = v.of(s.Code, uint32(val[atomA]), uint32(v.ofConstant(s.K)))
}

// arithmeticX is arithmetic with the operand in X.
func (o *optimiser) arithmeticX(s *graph.Stmt, val *[atoms]int, alter bool) {
	v := &o.numbering
	a, x, code := v.constants[val[atomA]], v.constants[val[atomX]], s.Code&cbpf.OpMask
	switch {
	case alter && x.known && a.known:
		o.fold(s, a.k, x.k)
		val[atomA] = v.ofConstant(s.K)
		return
	case alter && x.known:
		s.Code, s.K = cbpf.ClassALU|cbpf.SrcK|code, x.k
		if (code == cbpf.OpLsh || code == cbpf.OpRsh) && s.K > 31 {
			fault.Raise("", "shift by more than 31 bits")
		}
		o.progress()
		val[atomA] = v.of(s.Code, uint32(val[atomA]), uint32(v.ofConstant(s.K)))
		return
	case alter && a.known && a.k == 0:
		switch code {
		case cbpf.OpAdd, cbpf.OpOr, cbpf.OpXor:
			s.Code = cbpf.Txa
			set(s, &val[atomA], val[atomX], alter)
			return
		case cbpf.OpMul, cbpf.OpDiv, cbpf.OpMod, cbpf.OpAnd, cbpf.OpLsh, cbpf.OpRsh:
			s.Code, s.K = cbpf.LdImm, 0
			set(s, &val[atomA], v.ofConstant(0), alter)
			return
		}
	}
	val[atomA] = v.of(s.Code, uint32(val[atomA]), uint32(val[atomX]))
}

// fold replaces an operation on two constants by its result.
func (o *optimiser) fold(s *graph.Stmt, a, b uint32) {
	r, ok := cbpf.Calculate(s.Code&cbpf.OpMask, a, b)
	if !ok {
		fault.Raise("", "division by zero")
	}
	s.Code, s.K = cbpf.LdImm, r
	o.progress()
}
