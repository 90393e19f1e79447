package filter

// place says what may stand at a point of the expression. Which of several meanings a parenthesis has shows only inside it,
// so the parser carries the set of what is possible.
type place uint8

const (
	termOK   place = 1 << iota // a whole test: "tcp", "host a", "len > 5"
	idOK                       // an identifier that inherits its qualifiers, or a list of them in parentheses
	listOK                     // the first identifier inside such parentheses
	numberOK                   // a number, perhaps in parentheses
)

// found says what an element turned out to be.
type found uint8

const (
	foundTerm found = iota
	foundID
	foundNumber // nothing but a number: an identifier or the start of a calculation
	foundArith  // a calculation without a comparison
)

// element is the result of parsing one operand of and/or/not.
type element struct {
	found found
	node  node
	qual  qualifier // what the next identifier inherits
	arith arith
	num   token
}

type parser struct {
	toks  []token
	pos   int
	depth int
}

// maxDepth bounds the parser's recursion. libpcap's parser gives up at a like depth.
const maxDepth = 2000

// enter counts a level of recursion; what it gives back undoes that.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxDepth {
		fail(p.peek(), "", "nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }
}

// parse builds the tree. A nil tree is the empty expression.
func parse(toks []token) node {
	p := &parser{toks: toks}
	if p.peek().kind == kEnd {
		return nil
	}
	n, _ := p.list(p.element(termOK, undefined), undefined)
	if t := p.peek(); t.kind != kEnd {
		p.unexpected(t)
	}
	return n
}

func (p *parser) peek() token { return p.toks[p.pos] }

func (p *parser) next() token {
	t := p.toks[p.pos]
	if t.kind != kEnd {
		p.pos++
	}
	return t
}

func (p *parser) after() token { return p.toks[min(p.pos+1, len(p.toks)-1)] }

func (p *parser) want(c uint32) {
	if t := p.next(); !t.is(c) {
		p.unexpected(t)
	}
}

// list reads "and" and "or" behind a first operand: equal precedence, left to right, the last operand's qualifiers inherited.
func (p *parser) list(first element, q qualifier) (node, qualifier) {
	n := p.boolean(first, q)
	allowed := termOK | idOK
	if first.found != foundTerm {
		allowed = idOK
	}
	q = first.qual
	for p.peek().kind == kAnd || p.peek().kind == kOr {
		or := p.next().kind == kOr
		e := p.element(allowed, q)
		n, q = &logical{or: or, x: n, y: p.boolean(e, q)}, e.qual
	}
	return n, q
}

// boolean makes a number an identifier, where it turned out to be no part of a calculation.
func (p *parser) boolean(e element, q qualifier) node {
	if e.found == foundNumber {
		return p.identify(&primitive{at: e.num, qual: q})
	}
	return e.node
}

// element reads one operand.
func (p *parser) element(at place, q qualifier) element {
	defer p.enter()()
	t := p.peek()
	switch {
	case t.is('!') && at&(termOK|idOK|listOK) != 0:
		return p.negate(at, q)
	case t.is('('):
		return p.parenthesis(at, q)
	case t.kind == kNumber:
		return p.number(at, q, p.next())
	case t.kind >= kName && t.kind <= kArcnet:
		if at&(idOK|listOK) == 0 {
			p.unexpected(t)
		}
		return element{found: foundID, node: p.identifier(q), qual: q}
	case at&termOK == 0:
		p.unexpected(t)
	}
	return p.term(at)
}

func (p *parser) negate(at place, q qualifier) element {
	p.next()
	inner := at & termOK
	if at&(idOK|listOK) != 0 {
		inner |= idOK
	}
	e := p.element(inner, q)
	n := &negation{p.boolean(e, q)}
	if e.found == foundNumber {
		e.found = foundID
	}
	return element{found: e.found, node: n, qual: e.qual}
}

// parenthesis tells "(tcp or udp)", "(80 or 443)", "(80)" and "(len + 3)" apart by what is inside.
func (p *parser) parenthesis(at place, q qualifier) element {
	open := p.next()
	inner := numberOK
	if at&termOK != 0 {
		inner |= termOK
	}
	if at&idOK != 0 {
		inner |= listOK
	}
	e := p.element(inner, q)
	closes := p.peek().is(')')
	switch {
	case e.found == foundNumber && closes:
		p.next()
		return p.number(at, q, e.num)
	case e.found == foundArith && closes:
		p.next()
		return p.calculation(at, e.arith)
	case e.found == foundArith, e.found == foundNumber && at&idOK == 0:
		p.unexpected(p.peek())
	}
	n, _ := p.list(e, q)
	if t := p.next(); !t.is(')') {
		if t.kind == kEnd {
			fail(open, "", "parenthesis is never closed")
		}
		p.unexpected(t)
	}
	if e.found == foundNumber {
		e.found = foundID
	}
	return element{found: e.found, node: n, qual: q}
}

// number goes on after a number, which may be the start of a calculation or an identifier.
func (p *parser) number(at place, q qualifier, num token) element {
	if at&termOK != 0 && (p.operator() || p.compares()) {
		return p.calculation(at, &constant{num.num})
	}
	return element{found: foundNumber, num: num, qual: q}
}

// term reads a test that begins with a keyword.
func (p *parser) term(at place) element {
	t := p.peek()
	q := qualifier{}
	switch {
	case t.is('-'), t.kind == kLen:
		return p.calculation(at, p.operand())
	case t.kind == kProtocol:
		if p.after().is('[') {
			return p.calculation(at, p.operand())
		}
		p.next()
		q.proto = proto(t.num)
	}
	switch p.peek().kind {
	case kDir, kAddrType, kProtochain:
		return p.qualified(q)
	case kBroadcast, kMulticast:
		return element{node: &special{at: p.next(), proto: q.proto}, qual: undefined}
	}
	if t.kind == kProtocol {
		return element{node: &protocol{at: t, proto: q.proto}, qual: undefined}
	}
	return element{node: p.special(), qual: undefined}
}

// qualified reads "src port 80" behind the protocol.
func (p *parser) qualified(q qualifier) element {
	if p.peek().kind == kDir {
		q.dir = direction(p.next().num)
		if k := p.peek().kind; (k == kAnd || k == kOr) && p.after().kind == kDir {
			join := p.next()
			if direction(p.peek().num) == q.dir {
				p.unexpected(p.peek())
			}
			p.next()
			if q.dir = dirOr; join.kind == kAnd {
				q.dir = dirAnd
			}
		}
	}
	switch t := p.peek(); {
	case t.kind == kProtochain:
		fail(t, "", "protochain needs a loop, which a program at XDP cannot have")
	case t.kind == kAddrType:
		q.typ = addrType(t.num)
		if q.dir != dirNone && (q.typ == addrProto || q.typ == addrGateway) {
			p.unexpected(t)
		}
		p.next()
	}
	e := p.element(idOK, q)
	return element{node: p.boolean(e, q), qual: q}
}

// identifier reads an address or name with its mask.
func (p *parser) identifier(q qualifier) node {
	id := &primitive{at: p.next(), qual: q}
	v4, v6 := id.at.kind == kIPv4, id.at.kind == kIPv6
	switch {
	case (v4 || v6) && p.peek().is('/'):
		p.next()
		t := p.next()
		if t.kind != kNumber {
			p.unexpected(t)
		}
		id.slash, id.bits = true, t.num
	case v4 && p.peek().kind == kMask:
		p.next()
		if id.mask = p.next(); id.mask.kind != kIPv4 {
			p.unexpected(id.mask)
		}
	}
	return p.identify(id)
}

func (p *parser) identify(id *primitive) node {
	if id.qual.typ == addrUndefined {
		fail(id.at, "put a word like host, net or port before it", "nothing says what this is")
	}
	return id
}

// unexpected fails at a word that cannot stand where it is.
func (p *parser) unexpected(t token) {
	hint := ""
	switch {
	case t.kind == kRefused:
		fail(t, "leave it out", "%s", refusals[t.text])
	case t.kind == kEnd:
		fail(t, "", "syntax error: the expression ends too early")
	case t.kind >= kName && t.kind <= kArcnet:
		hint = "put a word like host, net or port before it"
		if t.text == "vxlan" {
			hint = "libpcap does not know it either; try udp port 4789"
		}
	case t.kind == kProtocol:
		hint = `to use this word as a name, put a \ before it`
	}
	fail(t, hint, "syntax error")
}
