package cbpf

// from is the position in the packet from which a field's offset counts.
type from int

const (
	fromLink      from = iota // start of the link header
	fromType                  // its type field
	fromLLC                   // after the type: an LLC header if the type is a length
	fromNetwork               // network header
	fromNoSNAP                // network header after LLC without SNAP
	fromPrevLabel             // the previous MPLS label
	fromIPv4Body              // transport header after an IPv4 header of any length
	fromIPv6Body              // transport header after an IPv6 header without extensions
)

// field is a position in a header.
type field struct {
	from   from
	offset uint32 // bytes
}

// load returns the code that loads a field into A.
func (g *generator) load(f field, size int) []*stmt {
	if f.from == fromIPv4Body {
		return append(g.ipv4Length(), op(LdInd|size, g.offsetOf(fromNetwork).constant+f.offset))
	}
	return g.offsetOf(f.from).load(f.offset, size)
}

// offsetOf returns the offset of a place in the packet, other than fromIPv4Body.
func (g *generator) offsetOf(from from) offset {
	switch from {
	case fromLink:
		return g.linkhdr
	case fromType:
		return g.linktype
	case fromLLC:
		return g.payload
	case fromNoSNAP:
		return g.payload.plus(g.toNetworkNoSNAP)
	case fromPrevLabel:
		return g.payload.plus(g.toNetwork - 4)
	case fromIPv6Body:
		return g.payload.plus(g.toNetwork + 40)
	}
	return g.payload.plus(g.toNetwork)
}

// offset is a position in the packet: a constant, plus a scratch word if variable is set.
type offset struct {
	constant uint32
	variable bool
	slot     uint32 // the scratch word's index
	stored   bool   // of a type field: the scratch word has the type itself, not its position
}

func (o offset) plus(k uint32) offset {
	o.constant += k
	return o
}

// load returns the code that loads the bytes k bytes after the offset into A.
func (o offset) load(k uint32, size int) []*stmt {
	switch {
	case o.stored:
		return []*stmt{op(LdMem, o.slot), op(And, 0xffff)}
	case o.variable:
		return append(o.intoX(), op(LdInd|size, o.constant+k))
	}
	return []*stmt{op(LdAbs|size, o.constant+k)}
}

// intoX returns the code that loads the variable part into X; nil = there is none.
func (o offset) intoX() []*stmt {
	if !o.variable {
		return nil
	}
	return []*stmt{op(LdxMem, o.slot)}
}

// ipv4Length returns the code that computes, in X, the length of the IPv4 header plus the variable
// part of the header's own offset.
func (g *generator) ipv4Length() []*stmt {
	header := g.offsetOf(fromNetwork)
	if !header.variable {
		return []*stmt{op(LdxMsh, header.constant)}
	}
	return append(header.load(0, SizeB), op(And, 0xf), op(Lsh, 2), op(AddX, 0), op(Tax, 0))
}

// ipv6Length is ipv4Length for an IPv6 header without extensions.
func (g *generator) ipv6Length() []*stmt {
	s := append(g.payload.intoX(), op(LdImm, 40))
	if g.payload.variable {
		s = append(s, op(AddX, 0))
	}
	return append(s, op(Tax, 0))
}

// compare tests a field against a constant.
func (g *generator) compare(f field, size, jump int, v uint32) *block {
	return newBlock(ClassJMP|jump, v, g.load(f, size)...)
}

// equal tests whether a field has a value.
func (g *generator) equal(f field, size int, v uint32) *block {
	return g.compare(f, size, OpJeq, v)
}

// masked tests whether a field has a value in the bits of mask.
func (g *generator) masked(f field, size int, v, mask uint32) *block {
	s := g.load(f, size)
	if mask != ^uint32(0) {
		s = append(s, op(And, mask))
	}
	return newBlock(Jeq, v, s...)
}

// bytes tests consecutive bytes, from the last to the first, in pieces of up to four.
func (g *generator) bytes(f field, v []byte) *block {
	var b *block
	for len(v) > 0 {
		n, size := 1, SizeB
		if len(v) >= 4 {
			n, size = 4, SizeW
		} else if len(v) >= 2 {
			n, size = 2, SizeH
		}
		at := len(v) - n
		b = and(b, g.equal(field{f.from, f.offset + uint32(at)}, size, bigEndian(v[at:])))
		v = v[:at]
	}
	return b
}
