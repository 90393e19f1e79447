package syntax

import (
	"strings"
)

// precedence of the operators: the higher one binds first. In libpcap's grammar "%" and "^" have
// none (0 here). Such an operator takes only the operand on its right, and so does any operator to
// the left of it.
var precedence = map[uint32]int{'|': 1, '&': 2, SymLSH: 3, SymRSH: 3, '+': 4, '-': 4, '*': 5, '/': 5, '%': 0, '^': 0}

// unaryMinus is the precedence of a minus sign in front of a number.
const unaryMinus = 6

// compares reports whether a token compares two numbers.
func compares(t Token) bool {
	return t.Is('>') || t.Is('<') || t.Is('=') || t.Is(SymGE) || t.Is(SymLE) || t.Is(SymNE)
}

// operator reports whether the next token is an operator between numbers.
func (p *parser) operator() bool {
	_, ok := precedence[p.peek().Num]
	return ok && p.peek().Kind == KindSymbol
}

// calculation reads the rest of a calculation after its first operand, and then a comparison with
// another calculation. Without a comparison the calculation is only a number, which is an error
// unless at allows one.
func (p *parser) calculation(allowed place, first Arith) element {
	x := p.operate(first, 0)
	if !compares(p.peek()) {
		if allowed&numberOK == 0 {
			p.peek().Fail("compare it, as in len > 100", "syntax error: a number alone is no test")
		}
		return element{found: foundArith, arith: x}
	}
	op := p.next()
	y := p.operate(p.operand(), 0)
	return element{expr: &Relation{At: op, X: x, Y: y}, qual: undefined}
}

// operate reads operators and their right operands, as long as they bind tighter than left, the
// precedence of the operator before x; 0 = x is the first operand.
func (p *parser) operate(x Arith, left int) Arith {
	defer p.enter()()
	for p.operator() {
		prec := precedence[p.peek().Num]
		if prec != 0 && left != 0 && prec <= left {
			break
		}
		op := p.next()
		x = &Operation{At: op, X: x, Y: p.operate(p.operand(), prec)}
	}
	return x
}

// operand reads one number.
func (p *parser) operand() Arith {
	defer p.enter()()
	switch t := p.next(); {
	case t.Kind == KindNumber:
		return &Constant{t.Num}
	case t.Kind == KindLen:
		return &Length{}
	case t.Is('-'):
		return &Minus{p.operate(p.operand(), unaryMinus)}
	case t.Is('('):
		x := p.operate(p.operand(), 0)
		p.expect(')')
		return x
	case t.Kind == KindProtocol && p.peek().Is('['):
		p.next()
		l := &Load{At: t, Proto: Proto(t.Num), Offset: p.operate(p.operand(), 0), Size: t, Bytes: 1}
		if p.peek().Is(':') {
			p.next()
			if l.Size = p.next(); l.Size.Kind != KindNumber {
				p.unexpected(l.Size)
			}
			l.Bytes = l.Size.Num
		}
		p.expect(']')
		return l
	default:
		p.unexpected(t)
		return nil
	}
}

// special reads the tests that are neither identifiers nor calculations.
func (p *parser) special() Expr {
	s := &Special{At: p.next()}
	switch s.At.Kind {
	case KindDirection:
	case KindLess, KindGreater, KindIfindex:
		s.Arg = p.plainNumber()
	case KindByte:
		s.Arg = p.plainNumber()
		op := p.next()
		if op.Kind != KindSymbol || !strings.ContainsRune("&|<>=", rune(op.Num)) {
			p.unexpected(op)
		}
		s.Op, s.Value = op.Num, p.plainNumber()
	case KindEncap:
		if Encap(s.At.Num) == EncapPPPoED {
			break
		}
		if t := p.peek(); t.Kind == KindNumber || t.Is('(') {
			s.Has, s.ArgAt, s.Arg = true, t, p.nestedNumber()
		}
	case KindLLC:
		if t := p.peek(); t.Kind == KindName || t.Text == "rnr" {
			s.ArgAt, s.Name = t, strings.TrimPrefix(p.next().Text, `\`)
		}
	default:
		p.unexpected(s.At)
	}
	return s
}

// plainNumber reads a number without parentheses.
func (p *parser) plainNumber() uint32 {
	t := p.next()
	if t.Kind != KindNumber {
		p.unexpected(t)
	}
	return t.Num
}

// nestedNumber reads a number inside any number of parentheses.
func (p *parser) nestedNumber() uint32 {
	defer p.enter()()
	if !p.peek().Is('(') {
		return p.plainNumber()
	}
	p.next()
	v := p.nestedNumber()
	p.expect(')')
	return v
}
