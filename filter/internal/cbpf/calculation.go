package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// calculation is code that leaves its result in a scratch word.
type calculation struct {
	stmts []*stmt
	guard *block // tests that the packet has the headers that the code reads; nil = it reads none
	slot  uint32 // the scratch word
}

func (c *calculation) add(s ...*stmt) { c.stmts = append(c.stmts, s...) }

// require adds a test to the guard.
func (c *calculation) require(b *block) { c.guard = and(c.guard, b) }

// comparisons are the classic jump for each relation, or for its opposite.
var comparisons = map[uint32]struct {
	jump     int
	opposite bool
}{'>': {OpJgt, false}, syntax.SymGE: {OpJge, false}, '=': {OpJeq, false},
	syntax.SymLE: {OpJgt, true}, '<': {OpJge, true}, syntax.SymNE: {OpJeq, true}}

// relation compares two calculations.
func (g *generator) relation(r *syntax.Relation) *block {
	x := g.calculate(r.X)
	y := g.calculate(r.Y)
	x.add(y.stmts...)
	x.add(op(LdxMem, y.slot), op(LdMem, x.slot))
	compare := comparisons[r.At.Num]
	var b *block
	if compare.jump == OpJeq {
		x.add(op(SubX, 0))
		b = newBlock(Jeq, 0, x.stmts...)
	} else {
		b = newBlock(ClassJMP|compare.jump|SrcX, 0, x.stmts...)
	}
	if compare.opposite {
		not(b)
	}
	g.free(x.slot)
	g.free(y.slot)
	return and(and(x.guard, y.guard), b)
}

// calculate generates the code of a number.
func (g *generator) calculate(a syntax.Arith) *calculation {
	if k, ok := constant(a); ok {
		return g.result(op(LdImm, k))
	}
	switch a := a.(type) {
	case *syntax.Length:
		return g.result(op(LdLen, 0))
	case *syntax.Load:
		return g.indexed(a)
	case *syntax.Minus:
		v := g.calculate(a.X)
		v.add(op(LdMem, v.slot), op(Neg, 0), op(St, v.slot))
		return v
	default:
		return g.operation(a.(*syntax.Operation))
	}
}

// result stores the number that statements have left in A.
func (g *generator) result(stmts ...*stmt) *calculation {
	v := &calculation{slot: g.slot(syntax.Token{})}
	v.add(append(stmts, op(St, v.slot))...)
	return v
}

// constant calculates a number that does not depend on the packet. It refuses a division by 0, and
// a shift by 32 bits or more.
func constant(a syntax.Arith) (k uint32, ok bool) {
	switch a := a.(type) {
	case *syntax.Constant:
		return a.Value, true
	case *syntax.Minus:
		k, ok = constant(a.X)
		return -k, ok
	case *syntax.Operation:
		code := operations[a.At.Num]
		y, known := constant(a.Y)
		switch {
		case !known:
		case (code == OpDiv || code == OpMod) && y == 0:
			a.At.Fail("", "division by zero")
		case (code == OpLsh || code == OpRsh) && y > 31:
			a.At.Fail("", "shift by more than 31 bits")
		}
		if x, ok := constant(a.X); ok && known {
			return Calculate(code, x, y)
		}
	}
	return 0, false
}

// operations are the classic opcodes of the operators.
var operations = map[uint32]int{'|': OpOr, '&': OpAnd, syntax.SymLSH: OpLsh, syntax.SymRSH: OpRsh,
	'+': OpAdd, '-': OpSub, '*': OpMul, '/': OpDiv, '%': OpMod, '^': OpXor}

// operation calculates with two numbers.
func (g *generator) operation(o *syntax.Operation) *calculation {
	code := operations[o.At.Num]
	x := g.calculate(o.X)
	y := g.calculate(o.Y)
	x.add(y.stmts...)
	x.add(op(LdxMem, y.slot), op(LdMem, x.slot), op(ClassALU|code|SrcX, 0))
	g.free(x.slot)
	g.free(y.slot)
	x.slot = g.slot(o.At)
	x.add(op(St, x.slot))
	x.require(y.guard)
	return x
}

// indexed loads bytes at a computed offset: proto[offset:size]. An offset may be negative:
// positions are calculated with 32 bits.
func (g *generator) indexed(l *syntax.Load) *calculation {
	size, ok := map[uint32]int{1: SizeB, 2: SizeH, 4: SizeW}[l.Bytes]
	if !ok {
		l.Size.Fail("write 1, 2 or 4", "cannot load this many bytes at once")
	}
	c := &calculation{}
	k, fixed := constant(l.Offset)
	if !fixed {
		c = g.calculate(l.Offset)
		g.free(c.slot)
	}
	base := g.offsetOf(fromNetwork)
	start := base.intoX()
	switch l.Proto {
	case syntax.ProtoLink:
		base = g.offsetOf(fromLink)
		start = base.intoX()
		if g.carried {
			c.require(g.levelHasEthernet())
		}
	case syntax.ProtoIP, syntax.ProtoARP, syntax.ProtoRARP, syntax.ProtoATALK, syntax.ProtoDECNET,
		syntax.ProtoSCA, syntax.ProtoLAT, syntax.ProtoMOPRC, syntax.ProtoMOPDL, syntax.ProtoIP6:
		c.require(g.protocol(l.At, l.Proto))
	case syntax.ProtoSCTP, syntax.ProtoTCP, syntax.ProtoUDP, syntax.ProtoICMP, syntax.ProtoIGMP,
		syntax.ProtoIGRP, syntax.ProtoPIM, syntax.ProtoVRRP, syntax.ProtoCARP:
		start = g.ipv4Length()
		c.require(and(g.protocol(l.At, l.Proto), g.firstFragment()))
		c.guard = and(g.protocol(l.At, syntax.ProtoIP), c.guard)
	case syntax.ProtoICMP6:
		c.require(g.protocol(l.At, syntax.ProtoIP6))
		c.require(g.equal(field{fromNetwork, 6}, SizeB, IPICMP6))
		base = g.offsetOf(fromIPv6Body)
	default:
		l.At.Fail("", "this protocol cannot be indexed")
	}
	c.add(start...) // the variable part of the header's position, in X
	switch position := base.constant + k; {
	case fixed && start == nil:
		c.add(op(LdAbs|size, position))
	case fixed && position < absent:
		c.add(op(LdInd|size, position))
	default:
		if fixed {
			c.add(op(LdImm, k))
		} else {
			c.add(op(LdMem, c.slot))
		}
		if start != nil {
			c.add(op(AddX, 0))
		}
		c.add(op(Add, base.constant), op(Tax, 0), op(LdInd|size, 0))
	}
	c.slot = g.slot(l.At)
	c.add(op(St, c.slot))
	return c
}
