package filter

import (
	"strings"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// Precedence of the operators, as in libpcap's grammar: "%" and "^" have none there, and whatever stands right of them, or
// they right of something, binds first.
var precedence = map[uint32]int{'|': 1, '&': 2, symLSH: 3, symRSH: 3, '+': 4, '-': 4, '*': 5, '/': 5, '%': 0, '^': 0}

var operations = map[uint32]uint16{'|': cbpf.OpOr, '&': cbpf.OpAnd, symLSH: cbpf.OpLsh, symRSH: cbpf.OpRsh, '+': cbpf.OpAdd, '-': cbpf.OpSub,
	'*': cbpf.OpMul, '/': cbpf.OpDiv, '%': cbpf.OpMod, '^': cbpf.OpXor}

// unaryMinus binds tighter than every operator that has a precedence.
const unaryMinus = 6

// comparisons are the classic jump for each relation, and whether it is its opposite.
var comparisons = map[uint32]struct {
	op  uint16
	not bool
}{'>': {cbpf.OpJgt, false}, symGE: {cbpf.OpJge, false}, '=': {cbpf.OpJeq, false}, symLE: {cbpf.OpJgt, true}, '<': {cbpf.OpJge, true}, symNE: {cbpf.OpJeq, true}}

func (p *parser) operator() bool {
	_, ok := precedence[p.peek().num]
	return ok && p.peek().kind == kSymbol
}

func (p *parser) compares() bool {
	_, ok := comparisons[p.peek().num]
	return ok && p.peek().kind == kSymbol
}

// calculation goes on after the first operand: the rest of it, then a comparison with another calculation.
func (p *parser) calculation(at place, first arith) element {
	x := p.operate(first, 0)
	if !p.compares() {
		if at&numberOK == 0 {
			fail(p.peek(), "compare it, as in len > 100", "syntax error: a number alone is no test")
		}
		return element{found: foundArith, arith: x}
	}
	op := p.next()
	y := p.operate(p.operand(), 0)
	c := comparisons[op.num]
	return element{node: &relation{at: op, op: c.op, not: c.not, x: x, y: y}, qual: undefined}
}

// operate takes operators while they bind tighter than left, the operator before x.
func (p *parser) operate(x arith, left int) arith {
	defer p.enter()()
	for p.operator() {
		prec := precedence[p.peek().num]
		if prec != 0 && left != 0 && prec <= left {
			break
		}
		op := p.next()
		x = &operation{at: op, op: operations[op.num], x: x, y: p.operate(p.operand(), prec)}
	}
	return x
}

// operand reads one number.
func (p *parser) operand() arith {
	defer p.enter()()
	switch t := p.next(); {
	case t.kind == kNumber:
		return &constant{t.num}
	case t.kind == kLen:
		return &length{}
	case t.is('-'):
		return &unary{p.operate(p.operand(), unaryMinus)}
	case t.is('('):
		x := p.operate(p.operand(), 0)
		p.want(')')
		return x
	case t.kind == kProtocol && p.peek().is('['):
		p.next()
		l := &load{at: t, proto: proto(t.num), offset: p.operate(p.operand(), 0), size: t, bytes: 1}
		if p.peek().is(':') {
			p.next()
			if l.size = p.next(); l.size.kind != kNumber {
				p.unexpected(l.size)
			}
			l.bytes = l.size.num
		}
		p.want(']')
		return l
	default:
		p.unexpected(t)
		return nil
	}
}

// special reads the tests that are neither identifiers nor calculations.
func (p *parser) special() node {
	s := &special{at: p.next()}
	switch s.at.kind {
	case kDirection:
	case kLess, kGreater:
		s.arg = p.plainNumber()
	case kByte:
		s.arg = p.plainNumber()
		op := p.next()
		if op.kind != kSymbol || !strings.ContainsRune("&|<>=", rune(op.num)) {
			p.unexpected(op)
		}
		s.op, s.value = op.num, p.plainNumber()
	case kEncap:
		if encap(s.at.num) == encapPPPoED {
			break
		}
		if t := p.peek(); t.kind == kNumber || t.is('(') {
			s.has, s.nameToken, s.arg = true, t, p.nestedNumber()
		}
	case kLLC:
		if t := p.peek(); t.kind == kName || t.text == "rnr" {
			s.nameToken, s.name = t, strings.TrimPrefix(p.next().text, `\`)
		}
	default:
		p.unexpected(s.at)
	}
	return s
}

func (p *parser) plainNumber() uint32 {
	t := p.next()
	if t.kind != kNumber {
		p.unexpected(t)
	}
	return t.num
}

func (p *parser) nestedNumber() uint32 {
	defer p.enter()()
	if !p.peek().is('(') {
		return p.plainNumber()
	}
	p.next()
	v := p.nestedNumber()
	p.want(')')
	return v
}
