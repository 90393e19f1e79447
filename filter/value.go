package filter

import "github.com/xdpcap/xdpcap/filter/internal/cbpf"

// unknown is the value of which nothing is known, not even that it equals itself.
const unknown = 0

// values numbers what instructions compute: equal numbers are equal at run time.
type values struct {
	known  map[expression]int
	consts []known
}

type expression struct {
	code int
	x, y uint32
}

type known struct {
	is bool
	v  uint32
}

func (v *values) reset() {
	v.known = map[expression]int{}
	v.consts = append(v.consts[:0], known{})
}

func (v *values) of(code int, x, y uint32) int {
	e := expression{code, x, y}
	if n, ok := v.known[e]; ok {
		return n
	}
	n := len(v.consts)
	v.known[e] = n
	v.consts = append(v.consts, known{is: code == cbpf.LdImm, v: x})
	return n
}

func (v *values) constant(k uint32) int { return v.of(cbpf.LdImm, k, 0) }

// set writes a value, or deletes the statement that writes what is there already.
func set(s *stmt, to *int, n int, alter bool) {
	if alter && n != unknown && *to == n {
		s.code = nop
		return
	}
	*to = n
}

// statement follows one instruction, and simplifies it if alter is set.
func (o *optimizer) statement(s *stmt, val *[atoms]int, alter bool) {
	if s.code == nop {
		return
	}
	v := &o.values
	switch s.code & cbpf.ClassMask {
	case cbpf.ClassLD:
		o.loadStatement(s, val, alter)
	case cbpf.ClassLDX:
		switch s.code {
		case cbpf.LdxImm:
			set(s, &val[atomX], v.constant(s.k), alter)
		case cbpf.LdxMsh:
			set(s, &val[atomX], v.of(s.code, s.k, 0), alter)
		case cbpf.LdxMem:
			n := val[s.k]
			if alter && v.consts[n].is {
				s.code, s.k = cbpf.LdxImm, v.consts[n].v
				o.progress()
			}
			set(s, &val[atomX], n, alter)
		}
	case cbpf.ClassST:
		set(s, &val[s.k], val[atomA], alter)
	case cbpf.ClassSTX:
		set(s, &val[s.k], val[atomX], alter)
	case cbpf.ClassALU:
		o.arithmetic(s, val, alter)
	case cbpf.ClassMISC:
		if s.code == cbpf.Tax {
			set(s, &val[atomX], val[atomA], alter)
		} else {
			set(s, &val[atomA], val[atomX], alter)
		}
	}
}

func (o *optimizer) loadStatement(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	n := 0
	switch s.code & cbpf.ModeMask {
	case cbpf.ModeABS:
		n = v.of(s.code, s.k, 0)
	case cbpf.ModeIND:
		x := val[atomX]
		if alter && v.consts[x].is {
			s.code = cbpf.ClassLD | cbpf.ModeABS | s.code&cbpf.SizeMask
			s.k += v.consts[x].v
			n = v.of(s.code, s.k, 0)
			o.progress()
		} else {
			n = v.of(s.code, s.k, uint32(x))
		}
	case cbpf.ModeLEN:
		n = v.of(s.code, 0, 0)
	case cbpf.ModeIMM:
		n = v.constant(s.k)
	case cbpf.ModeMEM:
		n = val[s.k]
		if alter && v.consts[n].is {
			s.code, s.k = cbpf.LdImm, v.consts[n].v
			o.progress()
		}
	}
	set(s, &val[atomA], n, alter)
}

func (o *optimizer) arithmetic(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	switch {
	case s.code == cbpf.Neg:
		if a := v.consts[val[atomA]]; alter && a.is {
			s.code, s.k = cbpf.LdImm, -a.v
			val[atomA] = v.constant(s.k)
		} else {
			val[atomA] = v.of(s.code, uint32(val[atomA]), 0)
		}
	case s.code&cbpf.SrcMask == cbpf.SrcK:
		o.arithmeticK(s, val, alter)
	default:
		o.arithmeticX(s, val, alter)
	}
}

func (o *optimizer) arithmeticK(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	if alter && s.k == 0 {
		switch s.code & cbpf.OpMask {
		case cbpf.OpAdd, cbpf.OpLsh, cbpf.OpRsh, cbpf.OpOr, cbpf.OpXor:
			s.code = nop
			return
		case cbpf.OpMul, cbpf.OpAnd:
			s.code = cbpf.LdImm
			val[atomA] = v.constant(0)
			return
		case cbpf.OpDiv, cbpf.OpMod:
			fail(token{}, "", "division by zero")
		}
	}
	if a := v.consts[val[atomA]]; alter && a.is {
		o.fold(s, a.v, s.k)
		val[atomA] = v.constant(s.k)
		return
	}
	val[atomA] = v.of(s.code, uint32(val[atomA]), uint32(v.constant(s.k)))
}

func (o *optimizer) arithmeticX(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	a, x, code := v.consts[val[atomA]], v.consts[val[atomX]], s.code&cbpf.OpMask
	switch {
	case alter && x.is && a.is:
		o.fold(s, a.v, x.v)
		val[atomA] = v.constant(s.k)
		return
	case alter && x.is:
		s.code, s.k = cbpf.ClassALU|cbpf.SrcK|code, x.v
		if (code == cbpf.OpLsh || code == cbpf.OpRsh) && s.k > 31 {
			fail(token{}, "", "shift by more than 31 bits")
		}
		o.progress()
		val[atomA] = v.of(s.code, uint32(val[atomA]), uint32(v.constant(s.k)))
		return
	case alter && a.is && a.v == 0:
		switch code {
		case cbpf.OpAdd, cbpf.OpOr, cbpf.OpXor:
			s.code = cbpf.Txa
			set(s, &val[atomA], val[atomX], alter)
			return
		case cbpf.OpMul, cbpf.OpDiv, cbpf.OpMod, cbpf.OpAnd, cbpf.OpLsh, cbpf.OpRsh:
			s.code, s.k = cbpf.LdImm, 0
			set(s, &val[atomA], v.constant(0), alter)
			return
		}
	}
	val[atomA] = v.of(s.code, uint32(val[atomA]), uint32(val[atomX]))
}

// fold replaces an operation on two constants.
func (o *optimizer) fold(s *stmt, a, b uint32) {
	r, ok := cbpf.Calculate(s.code&cbpf.OpMask, a, b)
	if !ok {
		fail(token{}, "", "division by zero")
	}
	s.code, s.k = cbpf.LdImm, r
	o.progress()
}
