package cbpf

import (
	"maps"
	"math"
)

// A value is a number for the content of an atom (value numbering). Equal numbers mean equal
// contents, for every packet; different numbers may also mean equal contents.
type value int

// values assigns the numbers.
type values struct {
	numbers map[expression]value
	bounds  []bounds
}

// expression is how a value is computed: by an opcode with other values or constants, or as one of
// several values, by the path that a packet has taken to a node.
type expression struct {
	code int
	x, y value
	k    uint64
}

const (
	codeMeet = -1 - iota // the content of atom k at the beginning of node x
	codeConstant
)

// bounds limit a value, as far as the optimiser has derived it.
type bounds struct {
	most     uint32 // upper bound
	constant bool   // it always equals most
}

func (v *values) reset() {
	v.numbers = map[expression]value{}
	v.bounds = v.bounds[:0]
}

func (v *values) numberOf(e expression, most uint32) value {
	n, ok := v.numbers[e]
	if !ok {
		n = value(len(v.bounds))
		v.numbers[e] = n
		v.bounds = append(v.bounds, bounds{most, e.code == codeConstant})
	}
	return n
}

func (v *values) constant(k uint32) value {
	return v.numberOf(expression{code: codeConstant, k: uint64(k)}, k)
}

func (v *values) isConstant(n value) (k uint32, ok bool) {
	return v.bounds[n].most, v.bounds[n].constant
}

// calculation returns the value of an opcode that calculates with a and b.
func (v *values) calculation(code int, a, b value) value {
	code &= OpMask
	x, y := v.bounds[a], v.bounds[b]
	if x.constant && y.constant {
		if r, ok := Calculate(code, x.most, y.most); ok {
			return v.constant(r)
		}
	}
	if commutes(code) && x.constant {
		a, b, x, y = b, a, y, x
	}
	most := uint32(math.MaxUint32)
	if !y.constant {
		if code == OpAdd && uint64(x.most)+uint64(y.most) < 1<<32 {
			most = x.most + y.most
		}
		return v.numberOf(expression{code: ClassALU | code, x: a, y: b}, most)
	}
	k := y.most
	switch {
	case k == 0 && code != OpDiv && code != OpMod:
		if code == OpMul || code == OpAnd {
			return b
		}
		return a
	case k == 1 && (code == OpMul || code == OpDiv), k == math.MaxUint32 && code == OpAnd:
		return a
	case code == OpAnd:
		most = min(k, x.most)
	case (code == OpLsh || code == OpRsh) && k > 31:
		return v.constant(0)
	case code == OpRsh:
		most = x.most >> k
	case code == OpLsh && x.most<<k>>k == x.most:
		most = x.most << k
	case code == OpAdd && uint64(x.most)+uint64(k) < 1<<32:
		most = x.most + k
	case code == OpDiv && k != 0:
		most = x.most / k
	case code == OpMod && k != 0:
		most = min(x.most, k-1)
	}
	return v.numberOf(expression{code: ClassALU | code, x: a, y: b}, most)
}

// commutes reports whether the operands may change places.
func commutes(code int) bool {
	switch code {
	case OpAdd, OpMul, OpAnd, OpOr, OpXor:
		return true
	}
	return false
}

// A load reads size bytes of the packet, k bytes behind a base.
type load struct {
	base value
	k    uint64
	size uint64
}

// load returns the value and the bytes of a load. x is the value of X.
func (v *values) load(s *stmt, x value) (value, load) {
	l := load{base: v.constant(0), k: uint64(s.K), size: uint64(LoadSize(uint16(s.Code)))}
	most := uint32(1<<(8*l.size) - 1)
	switch {
	case s.Code == LdxMsh:
		most = 0xf * 4
	case s.Code&SetMask != 0: // a lookup
		most = 1
	}
	if s.Code&ModeMask == ModeIND {
		if k, ok := v.isConstant(x); ok {
			l.k += uint64(k)
		} else {
			l.base = x
		}
	}
	code := s.Code & (SetMask | SizeMask | ClassMask)
	return v.numberOf(expression{code: code | ModeABS, x: l.base, k: l.k}, most), l
}

// state is the result of the analysis at a point of the program.
type state struct {
	held  [atoms]value
	reach reach
}

func (s state) clone() state { return state{s.held, maps.Clone(s.reach)} }

// reach is a lower bound of the number of bytes that the packet has behind each base of a load. The
// first base is the start of the packet, the constant 0.
type reach map[value]uint64

// covers reports whether the packet has the bytes of a load.
func (r reach) covers(l load, v *values) bool {
	end := l.k + l.size
	return end <= r[l.base] || end+uint64(v.bounds[l.base].most) <= r[v.constant(0)]
}

// extend records that a load has found its bytes.
func (r reach) extend(l load, v *values) {
	start := v.constant(0)
	r[l.base] = max(r[l.base], l.k+l.size)
	r[start] = max(r[start], l.k+l.size) // a base is not negative
}

// meet keeps the smaller of the two lengths behind each base, which holds on both paths.
func (r reach) meet(s reach) {
	for base := range r {
		if r[base] = min(r[base], s[base]); r[base] == 0 {
			delete(r, base)
		}
	}
}

// findValues computes the states before and after each node.
func (o *optimiser) findValues() {
	o.values.reset()
	for _, n := range o.order {
		n.before = o.meeting(n)
		s := n.before.clone()
		n.loads, n.mayDivide = n.loads[:0], false
		for _, stmt := range n.stmts {
			e := o.apply(stmt, &s)
			if e.load.size > 0 {
				n.loads = append(n.loads, e.load)
			}
			n.mayDivide = n.mayDivide || e.divides
		}
		n.after = s
		n.test = test{n.last.Code & OpMask, s.held[atomA], s.held[atomX]}
		if n.last.Code&SrcMask == SrcK {
			n.test.operand = o.values.constant(n.last.K)
		}
	}
}

// meeting returns the state that all edges to a node have in common.
func (o *optimiser) meeting(n *node) state {
	if len(n.in) == 0 {
		s := state{reach: reach{}}
		for a := range s.held {
			s.held[a] = o.values.numberOf(expression{code: codeMeet, k: uint64(a)}, math.MaxUint32)
		}
		return s
	}
	s := n.in[0].from.after.clone()
	for _, e := range n.in[1:] {
		s.reach.meet(e.from.after.reach)
		for a, held := range e.from.after.held {
			if s.held[a] != held {
				s.held[a] = o.values.numberOf(expression{code: codeMeet, x: value(n.index), k: uint64(a)}, math.MaxUint32)
			}
		}
	}
	return s
}

// effect is the effect of a statement.
type effect struct {
	result  value
	load    load // size is 0 if the statement is no load
	short   bool // the packet may lack the bytes of the load
	divides bool // it may divide by 0
}

// mayEnd reports whether the statement ends the filter for some packets.
func (e effect) mayEnd() bool { return e.short || e.divides }

// apply applies a statement to a state.
func (o *optimiser) apply(s *stmt, at *state) (e effect) {
	v := &o.values
	a, x := at.held[atomA], at.held[atomX]
	operand := x
	if s.Code&SrcMask == SrcK {
		operand = v.constant(s.K)
	}
	switch class, mode := s.Code&ClassMask, s.Code&ModeMask; {
	case class == ClassST:
		e.result = a
	case class == ClassSTX:
		e.result = x
	case s.Code == Tax:
		e.result = a
	case s.Code == Txa:
		e.result = x
	case s.Code == Neg:
		e.result = v.calculation(OpSub, v.constant(0), a)
	case class == ClassALU:
		e.result = v.calculation(s.Code, a, operand)
		code := s.Code & OpMask
		k, known := v.isConstant(operand)
		e.divides = (code == OpDiv || code == OpMod) && !(known && k != 0)
	case mode == ModeIMM:
		e.result = v.constant(s.K)
	case mode == ModeLEN:
		e.result = v.numberOf(expression{code: LdLen}, math.MaxUint32)
	case mode == ModeMEM:
		e.result = at.held[s.K]
	default:
		e.result, e.load = v.load(s, x)
		e.short = !at.reach.covers(e.load, v)
		at.reach.extend(e.load, v)
	}
	at.held[writes(s)] = e.result
	return e
}
