package filter

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/wire"
)

// value is the code of a calculation: it leaves the result in a scratch word. guard is the test that the headers it reads are
// there; nil if none is needed.
type value struct {
	stmts []*stmt
	guard *block
	slot  int
}

func (v *value) add(s ...*stmt) { v.stmts = append(v.stmts, s...) }

func (g *generator) relation(r *relation) *block {
	x := g.value(r.x)
	y := g.value(r.y)
	x.add(y.stmts...)
	x.add(op(cbpf.LdxMem, uint32(y.slot)), op(cbpf.LdMem, uint32(x.slot)))
	var b *block
	if r.op == cbpf.OpJeq {
		x.add(op(cbpf.ClassALU|cbpf.OpSub|cbpf.SrcX, 0))
		b = newBlock(cbpf.ClassJMP|cbpf.OpJeq, 0, x.stmts...)
	} else {
		b = newBlock(cbpf.ClassJMP|int(r.op)|cbpf.SrcX, 0, x.stmts...)
	}
	if r.not {
		not(b)
	}
	g.free(x.slot)
	g.free(y.slot)
	guard := y.guard
	if x.guard != nil && y.guard != nil {
		guard = and(x.guard, y.guard)
	} else if x.guard != nil {
		guard = x.guard
	}
	if guard != nil {
		b = and(guard, b)
	}
	return b
}

func (g *generator) value(a arith) *value {
	switch a := a.(type) {
	case *constant:
		v := &value{slot: g.slot(token{})}
		v.add(op(cbpf.LdImm, a.value), op(cbpf.ClassST, uint32(v.slot)))
		return v
	case *length:
		v := &value{slot: g.slot(token{})}
		v.add(op(cbpf.LdLen, 0), op(cbpf.ClassST, uint32(v.slot)))
		return v
	case *load:
		return g.indexed(a)
	case *unary:
		v := g.value(a.x)
		v.add(op(cbpf.LdMem, uint32(v.slot)), op(cbpf.Neg, 0), op(cbpf.ClassST, uint32(v.slot)))
		return v
	default:
		return g.operation(a.(*operation))
	}
}

func (g *generator) operation(o *operation) *value {
	x := g.value(o.x)
	y := g.value(o.y)
	// libpcap looks at the first instruction only, so a sum that begins with 0 is refused too.
	if first := y.stmts[0]; first.code == cbpf.LdImm {
		switch {
		case (o.op == cbpf.OpDiv || o.op == cbpf.OpMod) && first.k == 0:
			fail(o.at, "", "division by zero")
		case (o.op == cbpf.OpLsh || o.op == cbpf.OpRsh) && first.k > 31:
			fail(o.at, "", "shift by more than 31 bits")
		}
	}
	x.add(y.stmts...)
	x.add(op(cbpf.LdxMem, uint32(y.slot)), op(cbpf.LdMem, uint32(x.slot)), op(cbpf.ClassALU|int(o.op)|cbpf.SrcX, 0))
	g.free(x.slot)
	g.free(y.slot)
	x.slot = g.slot(o.at)
	x.add(op(cbpf.ClassST, uint32(x.slot)))
	return x // with the guard of its left side alone, as in libpcap
}

// indexed is proto[offset:size].
func (g *generator) indexed(l *load) *value {
	v := g.value(l.offset)
	slot := g.slot(l.at)
	g.free(v.slot)
	size := cbpf.SizeB
	switch l.bytes {
	case 1:
	case 2:
		size = cbpf.SizeH
	case 4:
		size = cbpf.SizeW
	default:
		fail(l.size, "write 1, 2 or 4", "this many bytes cannot be loaded at once")
	}
	base, k := &g.payload, g.payload.constant+g.nl
	body := false
	switch l.proto {
	case protoLink:
		base, k = &g.linkhdr, g.linkhdr.constant
	case protoIP, protoARP, protoRARP, protoATALK, protoDECNET, protoSCA, protoLAT, protoMOPRC, protoMOPDL, protoIP6:
		v.require(g.protocol(l.at, l.proto))
	case protoSCTP, protoTCP, protoUDP, protoICMP, protoIGMP, protoIGRP, protoPIM, protoVRRP, protoCARP:
		body = true
		first := and(g.protocol(l.at, l.proto), g.firstFragment())
		v.require(first)
		v.guard = and(g.protocol(l.at, protoIP), v.guard)
	case protoICMP6:
		v.require(g.protocol(l.at, protoIP6))
		v.require(g.equal(field{fromNetwork, 6}, cbpf.SizeB, wire.IPICMP6))
		k += 40
	default:
		fail(l.at, "", "the bytes of this protocol cannot be indexed")
	}
	g.index(v, base, body)
	v.add(op(cbpf.ClassLD|cbpf.ModeIND|size, k), op(cbpf.ClassST, uint32(slot)))
	v.slot = slot
	return v
}

// index gets the offset, which v has computed, into X, plus what else the load is relative to.
func (g *generator) index(v *value, base *offset, body bool) {
	start := g.base(base)
	if body {
		start = g.ipv4Length()
	}
	if start == nil {
		v.add(op(cbpf.LdxMem, uint32(v.slot)))
		return
	}
	v.add(start...)
	v.add(op(cbpf.LdMem, uint32(v.slot)), op(cbpf.ClassALU|cbpf.OpAdd|cbpf.SrcX, 0), op(cbpf.Tax, 0))
}

func (v *value) require(b *block) {
	if v.guard != nil {
		b = and(v.guard, b)
	}
	v.guard = b
}
