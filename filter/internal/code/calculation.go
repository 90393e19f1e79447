package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// calculation is the code of a calculation. It leaves the result in a scratch word.
type calculation struct {
	stmts []*Stmt
	guard *Block // tests that the headers it reads exist; nil if not needed
	slot  int    // the scratch word
}

func (c *calculation) add(s ...*Stmt) { c.stmts = append(c.stmts, s...) }

// require adds a test to the guard.
func (c *calculation) require(b *Block) { c.guard = And(c.guard, b) }

// comparisons are the classic jump for each relation, or for its opposite.
var comparisons = map[uint32]struct {
	jump     int
	opposite bool
}{'>': {cbpf.OpJgt, false}, syntax.SymGE: {cbpf.OpJge, false}, '=': {cbpf.OpJeq, false},
	syntax.SymLE: {cbpf.OpJgt, true}, '<': {cbpf.OpJge, true}, syntax.SymNE: {cbpf.OpJeq, true}}

// relation compares two calculations.
func (g *generator) relation(r *syntax.Relation) *Block {
	x := g.calculate(r.X)
	y := g.calculate(r.Y)
	x.add(y.stmts...)
	x.add(Op(cbpf.LdxMem, uint32(y.slot)), Op(cbpf.LdMem, uint32(x.slot)))
	compare := comparisons[r.At.Num]
	var b *Block
	if compare.jump == cbpf.OpJeq {
		x.add(Op(cbpf.SubX, 0))
		b = New(cbpf.Jeq, 0, x.stmts...)
	} else {
		b = New(cbpf.ClassJMP|compare.jump|cbpf.SrcX, 0, x.stmts...)
	}
	if compare.opposite {
		Not(b)
	}
	g.free(x.slot)
	g.free(y.slot)
	return And(And(x.guard, y.guard), b)
}

// calculate generates the code of a number.
func (g *generator) calculate(a syntax.Arith) *calculation {
	if k, ok := constant(a); ok {
		return g.result(Op(cbpf.LdImm, k))
	}
	switch a := a.(type) {
	case *syntax.Length:
		return g.result(Op(cbpf.LdLen, 0))
	case *syntax.Load:
		return g.indexed(a)
	case *syntax.Minus:
		v := g.calculate(a.X)
		v.add(Op(cbpf.LdMem, uint32(v.slot)), Op(cbpf.Neg, 0), Op(cbpf.St, uint32(v.slot)))
		return v
	default:
		return g.operation(a.(*syntax.Operation))
	}
}

// result stores the number that statements have left in A.
func (g *generator) result(stmts ...*Stmt) *calculation {
	v := &calculation{slot: g.slot(syntax.Token{})}
	v.add(append(stmts, Op(cbpf.St, uint32(v.slot)))...)
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
		op := operations[a.At.Num]
		y, known := constant(a.Y)
		switch {
		case !known:
		case (op == cbpf.OpDiv || op == cbpf.OpMod) && y == 0:
			a.At.Fail("", "division by zero")
		case (op == cbpf.OpLsh || op == cbpf.OpRsh) && y > 31:
			a.At.Fail("", "shift by more than 31 bits")
		}
		if x, ok := constant(a.X); ok && known {
			return cbpf.Calculate(op, x, y)
		}
	}
	return 0, false
}

// operations are the classic opcodes of the operators.
var operations = map[uint32]int{'|': cbpf.OpOr, '&': cbpf.OpAnd, syntax.SymLSH: cbpf.OpLsh, syntax.SymRSH: cbpf.OpRsh,
	'+': cbpf.OpAdd, '-': cbpf.OpSub, '*': cbpf.OpMul, '/': cbpf.OpDiv, '%': cbpf.OpMod, '^': cbpf.OpXor}

// operation calculates with two numbers.
func (g *generator) operation(o *syntax.Operation) *calculation {
	op := operations[o.At.Num]
	x := g.calculate(o.X)
	y := g.calculate(o.Y)
	x.add(y.stmts...)
	x.add(Op(cbpf.LdxMem, uint32(y.slot)), Op(cbpf.LdMem, uint32(x.slot)), Op(cbpf.ClassALU|op|cbpf.SrcX, 0))
	g.free(x.slot)
	g.free(y.slot)
	x.slot = g.slot(o.At)
	x.add(Op(cbpf.St, uint32(x.slot)))
	x.require(y.guard)
	return x
}

// indexed loads bytes at a computed offset: proto[offset:size]. An offset may be negative:
// positions are calculated with 32 bits.
func (g *generator) indexed(l *syntax.Load) *calculation {
	size := cbpf.SizeB
	switch l.Bytes {
	case 1:
	case 2:
		size = cbpf.SizeH
	case 4:
		size = cbpf.SizeW
	default:
		l.Size.Fail("write 1, 2 or 4", "cannot load this many bytes at once")
	}
	at := &calculation{}
	k, fixed := constant(l.Offset)
	if !fixed {
		at = g.calculate(l.Offset)
		g.free(at.slot)
	}
	base := g.payload.plus(g.toNetwork)
	start := g.base(&base)
	switch l.Proto {
	case syntax.ProtoLink:
		base = g.linkhdr
		start = g.base(&base)
		if g.carried {
			at.require(g.levelHasEthernet())
		}
	case syntax.ProtoIP, syntax.ProtoARP, syntax.ProtoRARP, syntax.ProtoATALK, syntax.ProtoDECNET, syntax.ProtoSCA, syntax.ProtoLAT, syntax.ProtoMOPRC, syntax.ProtoMOPDL, syntax.ProtoIP6:
		at.require(g.protocol(l.At, l.Proto))
	case syntax.ProtoSCTP, syntax.ProtoTCP, syntax.ProtoUDP, syntax.ProtoICMP, syntax.ProtoIGMP, syntax.ProtoIGRP, syntax.ProtoPIM, syntax.ProtoVRRP, syntax.ProtoCARP:
		start = g.ipv4Length()
		at.require(And(g.protocol(l.At, l.Proto), g.firstFragment()))
		at.guard = And(g.protocol(l.At, syntax.ProtoIP), at.guard)
	case syntax.ProtoICMP6:
		at.require(g.protocol(l.At, syntax.ProtoIP6))
		at.require(g.equal(field{fromNetwork, 6}, cbpf.SizeB, names.IPICMP6))
		base = base.plus(40)
	default:
		l.At.Fail("", "this protocol cannot be indexed")
	}
	at.add(start...) // the variable part of the start, in X
	switch position := base.constant + k; {
	case fixed && start == nil:
		at.add(Op(cbpf.LdAbs|size, position))
	case fixed && position < absent:
		at.add(Op(cbpf.LdInd|size, position))
	default:
		if fixed {
			at.add(Op(cbpf.LdImm, k))
		} else {
			at.add(Op(cbpf.LdMem, uint32(at.slot)))
		}
		if start != nil {
			at.add(Op(cbpf.AddX, 0))
		}
		at.add(Op(cbpf.Add, base.constant), Op(cbpf.Tax, 0), Op(cbpf.LdInd|size, 0))
	}
	at.slot = g.slot(l.At)
	at.add(Op(cbpf.St, uint32(at.slot)))
	return at
}
