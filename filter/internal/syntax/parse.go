package syntax

// place is the set of elements allowed at a point of the expression. It is a set because only the
// content of a parenthesis decides which element the parenthesis is.
type place uint8

const (
	termOK   place = 1 << iota // a whole test: "tcp", "host a", "len > 5"
	idOK                       // an identifier with inherited qualifiers, or a list of such
	listOK                     // the first identifier inside the list's parentheses
	numberOK                   // a number, perhaps in parentheses
)

// found is the kind of a parsed element.
type found uint8

const (
	foundTerm found = iota
	foundID
	foundNumber // only a number: an identifier or the start of a calculation
	foundArith  // a calculation without a comparison
)

// element is the result of parsing one operand of and/or/not.
type element struct {
	found found
	expr  Expr      // of foundTerm and foundID
	arith Arith     // of foundArith
	num   Token     // of foundNumber
	qual  Qualifier // the qualifiers that the next identifier inherits
}

// parser is the state of a recursive descent. toks ends with a token of KindEnd.
type parser struct {
	toks  []Token
	pos   int
	depth int
}

// maxDepth bounds the parser's recursion. libpcap's parser fails at a similar depth.
const maxDepth = 2000

// enter counts one level of recursion. The function that it returns leaves the level again.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxDepth {
		p.peek().Fail("", "nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }
}

// Parse builds the tree of an expression. The tree of the empty expression is nil.
func Parse(text string) Expr {
	p := &parser{toks: scan(text)}
	if p.peek().Kind == KindEnd {
		return nil
	}
	n := p.list(p.element(termOK, undefined), undefined)
	if t := p.peek(); t.Kind != KindEnd {
		p.unexpected(t)
	}
	return n
}

func (p *parser) peek() Token { return p.toks[p.pos] }

func (p *parser) next() Token {
	t := p.toks[p.pos]
	if t.Kind != KindEnd {
		p.pos++
	}
	return t
}

// afterNext returns the token after the next one.
func (p *parser) afterNext() Token { return p.toks[min(p.pos+1, len(p.toks)-1)] }

// expect reads the operator c.
func (p *parser) expect(c uint32) {
	if t := p.next(); !t.Is(c) {
		p.unexpected(t)
	}
}

// list reads the operands that "and" and "or" add to a first one. Both bind equally, from left to
// right. Each operand may inherit the qualifiers of the one before.
func (p *parser) list(first element, q Qualifier) Expr {
	n := p.boolean(first, q)
	allowed := termOK | idOK
	if first.found != foundTerm {
		allowed = idOK
	}
	q = first.qual
	for p.peek().Kind == KindAnd || p.peek().Kind == KindOr {
		or := p.next().Kind == KindOr
		e := p.element(allowed, q)
		n, q = &Logical{Or: or, X: n, Y: p.boolean(e, q)}, e.qual
	}
	return n
}

// boolean turns an operand into an expression. A number that is not part of a calculation is an
// identifier.
func (p *parser) boolean(e element, q Qualifier) Expr {
	if e.found == foundNumber {
		return p.identify(&Primitive{At: e.num, Qual: q})
	}
	return e.expr
}

// element reads one operand of "and", "or" and "not".
func (p *parser) element(allowed place, q Qualifier) element {
	defer p.enter()()
	t := p.peek()
	switch {
	case t.Is('!') && allowed&(termOK|idOK|listOK) != 0:
		return p.negate(allowed, q)
	case t.Is('('):
		return p.parenthesis(allowed, q)
	case t.Kind == KindNumber:
		return p.number(allowed, q, p.next())
	case t.Kind >= KindName && t.Kind <= KindArcnet:
		if allowed&(idOK|listOK) == 0 {
			p.unexpected(t)
		}
		if t.Text == "in" && p.afterNext().Kind == KindSet {
			p.next()
			return element{found: foundID, expr: p.identify(&Primitive{At: p.next(), Qual: q}), qual: q}
		}
		return element{found: foundID, expr: p.identifier(q), qual: q}
	case allowed&termOK == 0:
		p.unexpected(t)
	case t.Kind == KindInner:
		return p.inner()
	}
	return p.term(allowed)
}

// negate reads "not" and its operand.
func (p *parser) negate(allowed place, q Qualifier) element {
	p.next()
	inner := allowed & termOK
	if allowed&(idOK|listOK) != 0 {
		inner |= idOK
	}
	e := p.element(inner, q)
	n := &Negation{p.boolean(e, q)}
	if e.found == foundNumber {
		e.found = foundID
	}
	return element{found: e.found, expr: n, qual: e.qual}
}

// inner reads "inner" and its operand. An identifier after it inherits no qualifiers: in "inner
// host a or b", b could mean the inner packet or the outer one.
func (p *parser) inner() element {
	at := p.next()
	e := p.element(termOK, undefined)
	return element{expr: &Inner{At: at, X: p.boolean(e, undefined)}, qual: undefined}
}

// parenthesis reads the content of parentheses: tests as in "(tcp or udp)", identifiers as in "(80
// or 443)", or a number as in "(80)" and "(len + 3)".
func (p *parser) parenthesis(allowed place, q Qualifier) element {
	open := p.next()
	inner := numberOK
	if allowed&termOK != 0 {
		inner |= termOK
	}
	if allowed&idOK != 0 {
		inner |= listOK
	}
	e := p.element(inner, q)
	closes := p.peek().Is(')')
	switch {
	case e.found == foundNumber && closes:
		p.next()
		return p.number(allowed, q, e.num)
	case e.found == foundArith && closes:
		p.next()
		return p.calculation(allowed, e.arith)
	case e.found == foundArith, e.found == foundNumber && allowed&idOK == 0:
		p.unexpected(p.peek())
	}
	n := p.list(e, q)
	if t := p.next(); !t.Is(')') {
		if t.Kind == KindEnd {
			open.Fail("", "parenthesis is never closed")
		}
		p.unexpected(t)
	}
	if e.found == foundNumber {
		e.found = foundID
	}
	return element{found: e.found, expr: n, qual: q}
}

// number decides about a number: it starts a calculation if an operator follows; otherwise it may
// be an identifier.
func (p *parser) number(allowed place, q Qualifier, num Token) element {
	if allowed&termOK != 0 && (p.operator() || compares(p.peek())) {
		return p.calculation(allowed, &Constant{num.Num})
	}
	return element{found: foundNumber, num: num, qual: q}
}

// term reads a test that begins with a keyword.
func (p *parser) term(allowed place) element {
	t := p.peek()
	q := Qualifier{}
	switch {
	case t.Is('-'), t.Kind == KindLen:
		return p.calculation(allowed, p.operand())
	case t.Kind == KindProtocol:
		if p.afterNext().Is('[') {
			return p.calculation(allowed, p.operand())
		}
		p.next()
		q.Proto = Proto(t.Num)
	}
	switch p.peek().Kind {
	case KindDir, KindAddrType:
		return p.qualified(q)
	case KindBroadcast, KindMulticast:
		return element{expr: &Special{At: p.next(), Proto: q.Proto}, qual: undefined}
	}
	if t.Kind == KindProtocol {
		return element{expr: &Protocol{At: t, Proto: q.Proto}, qual: undefined}
	}
	return element{expr: p.special(), qual: undefined}
}

// qualified reads the rest of "tcp src port 80" after the protocol.
func (p *parser) qualified(q Qualifier) element {
	if p.peek().Kind == KindDir {
		q.Dir = Direction(p.next().Num)
		if k := p.peek().Kind; (k == KindAnd || k == KindOr) && p.afterNext().Kind == KindDir {
			join := p.next()
			if Direction(p.peek().Num) == q.Dir {
				p.unexpected(p.peek())
			}
			p.next()
			if q.Dir = DirOr; join.Kind == KindAnd {
				q.Dir = DirAnd
			}
		}
	}
	if t := p.peek(); t.Kind == KindAddrType {
		q.Type = AddrType(t.Num)
		if q.Dir != DirNone && q.Type >= AddrGateway {
			p.unexpected(t)
		}
		p.next()
	}
	e := p.element(idOK, q)
	return element{expr: p.boolean(e, q), qual: q}
}

// identifier reads an address or a name, and its mask.
func (p *parser) identifier(q Qualifier) Expr {
	id := &Primitive{At: p.next(), Qual: q}
	v4, v6 := id.At.Kind == KindIPv4, id.At.Kind == KindIPv6
	switch {
	case (v4 || v6) && p.peek().Is('/'):
		p.next()
		t := p.next()
		if t.Kind != KindNumber {
			p.unexpected(t)
		}
		id.Slash, id.Bits = true, t.Num
	case v4 && p.peek().Kind == KindMask:
		p.next()
		if id.Mask = p.next(); id.Mask.Kind != KindIPv4 {
			p.unexpected(id.Mask)
		}
	}
	return p.identify(id)
}

// identify checks that the qualifiers determine the kind of an identifier.
func (p *parser) identify(id *Primitive) Expr {
	if id.Qual.Type == AddrUndefined {
		failDisplayFilter(id.At)
		id.At.Fail(hintFor(id.At), "nothing says what this is")
	}
	return id
}

// unexpected fails because of a word that is not allowed at its position.
func (p *parser) unexpected(t Token) {
	hint := ""
	switch {
	case t.Kind == KindRefused && refusals[t.Text] == choosesInterface:
		t.FailAs(ErrInterface, "", "%s", choosesInterface)
	case t.Kind == KindRefused:
		if hint = "remove it"; refusals[t.Text] == noWiFi {
			hint = "choose from a file with tcpdump -r FILE -w - FILTER | xdpcap read -"
		}
		t.Fail(hint, "%s", refusals[t.Text])
	case t.Kind == KindEnd:
		t.Fail("", "syntax error: the expression ends too early")
	case t.Kind >= KindName && t.Kind <= KindArcnet:
		failDisplayFilter(t)
		hint = hintFor(t)
	case t.Kind == KindSet:
		hint = "write in before the name of a set, as in host in " + t.Text
	case t.Kind == KindProtocol:
		hint = `to use this word as a name, put a \ before it`
	}
	t.Fail(hint, "syntax error")
}
