package filter

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
	v.consts = append(v.consts, known{is: code == insLdImm, v: x})
	return n
}

func (v *values) constant(k uint32) int { return v.of(insLdImm, k, 0) }

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
	switch s.code & classMask {
	case classLD:
		o.loadStatement(s, val, alter)
	case classLDX:
		switch s.code {
		case insLdxImm:
			set(s, &val[atomX], v.constant(s.k), alter)
		case insLdxMsh:
			set(s, &val[atomX], v.of(s.code, s.k, 0), alter)
		case insLdxMem:
			n := val[s.k]
			if alter && v.consts[n].is {
				s.code, s.k = insLdxImm, v.consts[n].v
				o.progress()
			}
			set(s, &val[atomX], n, alter)
		}
	case classST:
		set(s, &val[s.k], val[atomA], alter)
	case classSTX:
		set(s, &val[s.k], val[atomX], alter)
	case classALU:
		o.arithmetic(s, val, alter)
	case classMISC:
		if s.code == insTax {
			set(s, &val[atomX], val[atomA], alter)
		} else {
			set(s, &val[atomA], val[atomX], alter)
		}
	}
}

func (o *optimizer) loadStatement(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	n := 0
	switch s.code & modeMask {
	case modeABS:
		n = v.of(s.code, s.k, 0)
	case modeIND:
		x := val[atomX]
		if alter && v.consts[x].is {
			s.code = classLD | modeABS | s.code&sizeMask
			s.k += v.consts[x].v
			n = v.of(s.code, s.k, 0)
			o.progress()
		} else {
			n = v.of(s.code, s.k, uint32(x))
		}
	case modeLEN:
		n = v.of(s.code, 0, 0)
	case modeIMM:
		n = v.constant(s.k)
	case modeMEM:
		n = val[s.k]
		if alter && v.consts[n].is {
			s.code, s.k = insLdImm, v.consts[n].v
			o.progress()
		}
	}
	set(s, &val[atomA], n, alter)
}

func (o *optimizer) arithmetic(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	switch {
	case s.code == insNeg:
		if a := v.consts[val[atomA]]; alter && a.is {
			s.code, s.k = insLdImm, -a.v
			val[atomA] = v.constant(s.k)
		} else {
			val[atomA] = v.of(s.code, uint32(val[atomA]), 0)
		}
	case s.code&srcMask == srcK:
		o.arithmeticK(s, val, alter)
	default:
		o.arithmeticX(s, val, alter)
	}
}

func (o *optimizer) arithmeticK(s *stmt, val *[atoms]int, alter bool) {
	v := &o.values
	if alter && s.k == 0 {
		switch s.code & opMask {
		case opAdd, opLsh, opRsh, opOr, opXor:
			s.code = nop
			return
		case opMul, opAnd:
			s.code = insLdImm
			val[atomA] = v.constant(0)
			return
		case opDiv, opMod:
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
	a, x, code := v.consts[val[atomA]], v.consts[val[atomX]], s.code&opMask
	switch {
	case alter && x.is && a.is:
		o.fold(s, a.v, x.v)
		val[atomA] = v.constant(s.k)
		return
	case alter && x.is:
		s.code, s.k = classALU|srcK|code, x.v
		if (code == opLsh || code == opRsh) && s.k > 31 {
			fail(token{}, "", "shift by more than 31 bits")
		}
		o.progress()
		val[atomA] = v.of(s.code, uint32(val[atomA]), uint32(v.constant(s.k)))
		return
	case alter && a.is && a.v == 0:
		switch code {
		case opAdd, opOr, opXor:
			s.code = insTxa
			set(s, &val[atomA], val[atomX], alter)
			return
		case opMul, opDiv, opMod, opAnd, opLsh, opRsh:
			s.code, s.k = insLdImm, 0
			set(s, &val[atomA], v.constant(0), alter)
			return
		}
	}
	val[atomA] = v.of(s.code, uint32(val[atomA]), uint32(val[atomX]))
}

// fold replaces an operation on two constants.
func (o *optimizer) fold(s *stmt, a, b uint32) {
	r, ok := calculate(s.code&opMask, a, b)
	if !ok {
		fail(token{}, "", "division by zero")
	}
	s.code, s.k = insLdImm, r
	o.progress()
}

// calculate is what a classic operation gives; not ok is a division by zero. Shifts by more than 31 give 0.
func calculate(code int, a, b uint32) (r uint32, ok bool) {
	switch code {
	case opAdd:
		return a + b, true
	case opSub:
		return a - b, true
	case opMul:
		return a * b, true
	case opOr:
		return a | b, true
	case opAnd:
		return a & b, true
	case opXor:
		return a ^ b, true
	case opLsh:
		return a << b, true
	case opRsh:
		return a >> b, true
	}
	if b == 0 {
		return 0, false
	}
	if code == opDiv {
		return a / b, true
	}
	return a % b, true
}
