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
	offset uint32
}

// load returns the code that loads a field into A.
func (g *generator) load(f field, size int) []*stmt {
	switch f.from {
	case fromLink:
		return g.loadAt(&g.linkhdr, f.offset, size)
	case fromType:
		return g.loadAt(&g.linktype, f.offset, size)
	case fromLLC:
		return g.loadAt(&g.payload, f.offset, size)
	case fromNetwork:
		return g.loadAt(&g.payload, g.toNetwork+f.offset, size)
	case fromNoSNAP:
		return g.loadAt(&g.payload, g.toNetworkNoSNAP+f.offset, size)
	case fromPrevLabel:
		return g.loadAt(&g.payload, g.toNetwork-4+f.offset, size)
	case fromIPv6Body:
		return g.loadAt(&g.payload, g.toNetwork+40+f.offset, size)
	default:
		return append(g.ipv4Length(), op(LdInd|size, g.payload.constant+g.toNetwork+f.offset))
	}
}

// loadAt returns the code that loads k bytes after an offset.
func (g *generator) loadAt(o *offset, k uint32, size int) []*stmt {
	if o.stored {
		return []*stmt{op(LdMem, uint32(o.slot)), op(And, 0xffff)}
	}
	if s := g.base(o); s != nil {
		return append(s, op(LdInd|size, o.constant+k))
	}
	return []*stmt{op(LdAbs|size, o.constant+k)}
}

// base returns the code that loads the variable part of an offset into X; nil = it is constant.
func (g *generator) base(o *offset) []*stmt {
	if !o.variable {
		return nil
	}
	return []*stmt{op(LdxMem, uint32(o.slot))}
}

// ipv4Length returns the code that computes, in X, the length of the IPv4 header plus the variable
// part of the header's own offset.
func (g *generator) ipv4Length() []*stmt {
	k := g.payload.constant + g.toNetwork
	s := g.base(&g.payload)
	if s == nil {
		return []*stmt{op(LdxMsh, k)}
	}
	return append(s, op(LdInd|SizeB, k), op(And, 0xf), op(Lsh, 2),
		op(AddX, 0), op(Tax, 0))
}

// ipv6Length is ipv4Length for an IPv6 header without extensions.
func (g *generator) ipv6Length() []*stmt {
	s := append(g.base(&g.payload), op(LdImm, 40))
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
		var k uint32
		for _, c := range v[at:] {
			k = k<<8 | uint32(c)
		}
		b = and(b, g.equal(field{f.from, f.offset + uint32(at)}, size, k))
		v = v[:at]
	}
	return b
}
