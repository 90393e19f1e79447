package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/graph"
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// calculation is the code of a calculation. It leaves the result in a scratch word.
type calculation struct {
	stmts []*graph.Stmt
	guard *graph.Block // tests that the headers it reads exist; nil if not needed
	slot  int          // the scratch word
}

func (c *calculation) add(s ...*graph.Stmt) { c.stmts = append(c.stmts, s...) }

// require adds a test to the guard.
func (c *calculation) require(b *graph.Block) {
	if c.guard != nil {
		b = graph.And(c.guard, b)
	}
	c.guard = b
}

// comparisons are the classic jump for each relation, or for its opposite.
var comparisons = map[uint32]struct {
	jump     int
	opposite bool
}{'>': {cbpf.OpJgt, false}, syntax.SymGE: {cbpf.OpJge, false}, '=': {cbpf.OpJeq, false},
	syntax.SymLE: {cbpf.OpJgt, true}, '<': {cbpf.OpJge, true}, syntax.SymNE: {cbpf.OpJeq, true}}

// relation compares two calculations.
func (g *generator) relation(r *syntax.Relation) *graph.Block {
	x := g.calculate(r.X)
	y := g.calculate(r.Y)
	x.add(y.stmts...)
	x.add(graph.Op(cbpf.LdxMem, uint32(y.slot)), graph.Op(cbpf.LdMem, uint32(x.slot)))
	compare := comparisons[r.At.Num]
	var b *graph.Block
	if compare.jump == cbpf.OpJeq {
		x.add(graph.Op(cbpf.SubX, 0))
		b = graph.New(cbpf.Jeq, 0, x.stmts...)
	} else {
		b = graph.New(cbpf.ClassJMP|compare.jump|cbpf.SrcX, 0, x.stmts...)
	}
	if compare.opposite {
		graph.Not(b)
	}
	g.free(x.slot)
	g.free(y.slot)
	guard := y.guard
	if x.guard != nil && y.guard != nil {
		guard = graph.And(x.guard, y.guard)
	} else if x.guard != nil {
		guard = x.guard
	}
	if guard != nil {
		b = graph.And(guard, b)
	}
	return b
}

// calculate generates the code of a number.
func (g *generator) calculate(a syntax.Arith) *calculation {
	switch a := a.(type) {
	case *syntax.Constant:
		v := &calculation{slot: g.slot(syntax.Token{})}
		v.add(graph.Op(cbpf.LdImm, a.Value), graph.Op(cbpf.St, uint32(v.slot)))
		return v
	case *syntax.Length:
		v := &calculation{slot: g.slot(syntax.Token{})}
		v.add(graph.Op(cbpf.LdLen, 0), graph.Op(cbpf.St, uint32(v.slot)))
		return v
	case *syntax.Load:
		return g.indexed(a)
	case *syntax.Minus:
		v := g.calculate(a.X)
		v.add(graph.Op(cbpf.LdMem, uint32(v.slot)), graph.Op(cbpf.Neg, 0), graph.Op(cbpf.St, uint32(v.slot)))
		return v
	default:
		return g.operation(a.(*syntax.Operation))
	}
}

// operations are the classic opcodes of the operators.
var operations = map[uint32]int{'|': cbpf.OpOr, '&': cbpf.OpAnd, syntax.SymLSH: cbpf.OpLsh, syntax.SymRSH: cbpf.OpRsh,
	'+': cbpf.OpAdd, '-': cbpf.OpSub, '*': cbpf.OpMul, '/': cbpf.OpDiv, '%': cbpf.OpMod, '^': cbpf.OpXor}

// operation calculates with two numbers.
func (g *generator) operation(o *syntax.Operation) *calculation {
	op := operations[o.At.Num]
	x := g.calculate(o.X)
	y := g.calculate(o.Y)
	// libpcap looks at the first instruction only, so it refuses a sum that begins with 0, too.
	if first := y.stmts[0]; first.Code == cbpf.LdImm {
		switch {
		case (op == cbpf.OpDiv || op == cbpf.OpMod) && first.K == 0:
			o.At.Fail("", "division by zero")
		case (op == cbpf.OpLsh || op == cbpf.OpRsh) && first.K > 31:
			o.At.Fail("", "shift by more than 31 bits")
		}
	}
	x.add(y.stmts...)
	x.add(graph.Op(cbpf.LdxMem, uint32(y.slot)), graph.Op(cbpf.LdMem, uint32(x.slot)), graph.Op(cbpf.ClassALU|op|cbpf.SrcX, 0))
	g.free(x.slot)
	g.free(y.slot)
	x.slot = g.slot(o.At)
	x.add(graph.Op(cbpf.St, uint32(x.slot)))
	return x // libpcap forgets the guard of the right side, too
}

// indexed loads bytes at a computed offset: proto[offset:size].
func (g *generator) indexed(l *syntax.Load) *calculation {
	v := g.calculate(l.Offset)
	slot := g.slot(l.At)
	g.free(v.slot)
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
	base, k := &g.payload, g.payload.constant+g.nl
	body := false
	switch l.Proto {
	case syntax.ProtoLink:
		base, k = &g.linkhdr, g.linkhdr.constant
	case syntax.ProtoIP, syntax.ProtoARP, syntax.ProtoRARP, syntax.ProtoATALK, syntax.ProtoDECNET, syntax.ProtoSCA, syntax.ProtoLAT, syntax.ProtoMOPRC, syntax.ProtoMOPDL, syntax.ProtoIP6:
		v.require(g.protocol(l.At, l.Proto))
	case syntax.ProtoSCTP, syntax.ProtoTCP, syntax.ProtoUDP, syntax.ProtoICMP, syntax.ProtoIGMP, syntax.ProtoIGRP, syntax.ProtoPIM, syntax.ProtoVRRP, syntax.ProtoCARP:
		body = true
		first := graph.And(g.protocol(l.At, l.Proto), g.firstFragment())
		v.require(first)
		v.guard = graph.And(g.protocol(l.At, syntax.ProtoIP), v.guard)
	case syntax.ProtoICMP6:
		v.require(g.protocol(l.At, syntax.ProtoIP6))
		v.require(g.equal(field{fromNetwork, 6}, cbpf.SizeB, wire.IPICMP6))
		k += 40
	default:
		l.At.Fail("", "this protocol cannot be indexed")
	}
	g.index(v, base, body)
	v.add(graph.Op(cbpf.LdInd|size, k), graph.Op(cbpf.St, uint32(slot)))
	v.slot = slot
	return v
}

// index adds the code that gets the position of a load into X: the offset that c has computed, plus
// the variable part of the base that the offset counts from.
func (g *generator) index(v *calculation, base *offset, body bool) {
	start := g.base(base)
	if body {
		start = g.ipv4Length()
	}
	if start == nil {
		v.add(graph.Op(cbpf.LdxMem, uint32(v.slot)))
		return
	}
	v.add(start...)
	v.add(graph.Op(cbpf.LdMem, uint32(v.slot)), graph.Op(cbpf.AddX, 0), graph.Op(cbpf.Tax, 0))
}
