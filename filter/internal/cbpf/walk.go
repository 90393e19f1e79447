package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// The walk skips at most this number of headers of a kind to find the packet behind them. Further
// labels count as a packet of the next level.
const (
	maxLabels        = 4
	maxExtensions    = 4
	maxGTPExtensions = 3
)

// walk generates the search for the packets inside the packet, as an expression that is always
// true. It begins at the packet's first header, even behind words like vlan. It ends at the first
// header that carries no packet, and where the packet is too short for the next header: that ends
// the walk, but not the filter.
func (g *generator) walk() *block {
	here := g.place
	end := always(true)
	found := end
	for level := maxLevels; level >= 1; level-- {
		if g.place = firstPlace(g.Link, 0); level > 1 {
			g.place = placeOf(level - 1)
		}
		s := &step{generator: g, first: level == 1, base: baseWord(level), kind: kindWord(level), found: found, end: end}
		s.drop = goTo(end, op(LdImm, 0), op(St, s.kind))
		s.arrive = s.arrival()
		found = s.dispatch()
	}
	g.place = here
	none := []*stmt{op(LdImm, 0), op(St, protocolWord)}
	for level := 1; level <= maxLevels; level++ {
		none = append(none, op(St, baseWord(level)), op(St, kindWord(level)))
	}
	end.first = goTo(found, none...) // found is the first step now
	return end
}

// A step is the part of the walk that finds the packet of one level, from the place of the level
// before. During the search, the base word has the current position. The methods make blocks from
// the last one to the first, because each needs the block after it: next.
type step struct {
	*generator
	first      bool   // the level before is level 0
	base, kind uint32 // the scratch words of the level

	found  *block // continues with the next level
	end    *block // continues if there is no packet
	arrive *block // continues to found, once the position and the type of a packet are stored
	drop   *block // continues to end, and clears a type that was stored before
}

// position is the current position.
func (s *step) position() offset { return offset{variable: true, slot: s.base} }

// peek returns the code that loads the bytes k bytes after the position.
func (s *step) peek(k uint32, size int) []*stmt { return s.position().load(k, size) }

// advance returns the code that moves the position.
func (s *step) advance(k uint32) []*stmt {
	return []*stmt{op(LdMem, s.base), op(Add, k), op(St, s.base)}
}

// moveTo returns the code that sets the position k bytes behind the start of the network header of
// the level before.
func (s *step) moveTo(k uint32) []*stmt {
	if !s.payload.variable {
		return []*stmt{op(LdImm, s.payload.constant+k), op(St, s.base)}
	}
	return []*stmt{op(LdMem, s.payload.slot), op(Add, s.payload.constant+k), op(St, s.base)}
}

// store returns the code that loads a value and stores it.
func store(word uint32, load []*stmt) []*stmt { return append(load, op(St, word)) }

// arriveAs continues with a packet of a type, after code that sets its position.
func (s *step) arriveAs(typ uint32, position ...*stmt) *block {
	return goTo(s.arrive, append(position, op(LdImm, typ), op(St, s.kind))...)
}

// hasBytes tests whether the packet has k bytes from a position.
func hasBytes(o offset, k uint32) *block {
	if !o.variable {
		return newBlock(Jge, o.constant+k, op(LdLen, 0))
	}
	return newBlock(JgeX, 0, op(LdMem, o.slot), op(Add, o.constant+k), op(Tax, 0), op(LdLen, 0))
}

// ifHasBytes continues at yes if the packet has k bytes from the position, otherwise at end.
func (s *step) ifHasBytes(k uint32, yes *block) *block {
	return branch(hasBytes(s.position(), k), yes, s.end)
}

// A jumpCase is a target of switchOn.
type jumpCase struct {
	value uint32
	to    *block
}

// switchOn continues at the case of the loaded value.
func switchOn(load []*stmt, otherwise *block, cases ...jumpCase) *block {
	for i := len(cases) - 1; i >= 0; i-- {
		otherwise = branch(newBlock(Jeq, cases[i].value, copyOf(load)...), cases[i].to, otherwise)
	}
	return otherwise
}

// copyOf returns a copy of statements, because blocks must not share them.
func copyOf(stmts []*stmt) (all []*stmt) {
	for _, s := range stmts {
		all = append(all, op(s.Code, s.K))
	}
	return all
}

// ifMasked continues at yes if the loaded value has this value under a mask.
func ifMasked(load []*stmt, mask, value uint32, yes, no *block) *block {
	return branch(newBlock(Jeq, value, append(load, op(And, mask))...), yes, no)
}

// ifSet continues at yes if the loaded value has one of these bits.
func ifSet(load []*stmt, bits uint32, yes, no *block) *block {
	return branch(newBlock(Jset, bits, load...), yes, no)
}

// dispatch continues by the type of the level before.
func (s *step) dispatch() *block {
	protocol := s.protocols()
	is := func(typ uint32, yes, no *block) *block { return branch(s.linkIs(syntax.Token{}, typ), yes, no) }
	next := is(EtherPPPoES, s.pppoe(), s.end)
	labels := s.labelStack()
	next = is(EtherMPLS, labels, is(EtherMPLSUp, labels, next))
	tags := s.tags()
	next = is(Ether8021Q, tags, is(Ether8021AD, tags, is(EtherQinQ, tags, next)))
	next = is(EtherIP, s.ipv4(protocol), is(EtherIP6, s.ipv6(protocol), next))
	if s.first {
		next = branch(hasBytes(s.payload, 1), next, s.end)
	}
	return next
}

// ifWhole continues at yes if the packet has the k bytes of a network header. For an inner packet,
// arrival has already tested that.
func (s *step) ifWhole(k uint32, yes *block) *block {
	if s.first {
		return branch(hasBytes(s.payload, k), yes, s.end)
	}
	return yes
}

// ipv4 reads the header of IPv4.
func (s *step) ipv4(protocol *block) *block {
	length := s.ipv4Length()
	length = append(length, op(Txa, 0), op(Add, s.payload.constant), op(St, s.base))
	next := goTo(protocol, append(store(protocolWord, s.load(field{fromNetwork, 9}, SizeB)), length...)...)
	next = branch(s.firstFragment(), next, s.end)
	next = branch(s.compare(field{fromNetwork, 0}, SizeB, OpJgt, 0x4f), s.end, next)
	next = branch(s.compare(field{fromNetwork, 0}, SizeB, OpJge, 0x45), next, s.end)
	return s.ifWhole(20, next)
}

// ipv6 reads the header of IPv6 and its extension headers.
func (s *step) ipv6(protocol *block) *block {
	next := protocol
	for range maxExtensions {
		next = s.extension(next, protocol)
	}
	next = goTo(next, append(store(protocolWord, s.load(field{fromNetwork, 6}, SizeB)), s.moveTo(40)...)...)
	next = ifMasked(s.load(field{fromNetwork, 0}, SizeB), 0xf0, 0x60, next, s.end)
	return s.ifWhole(40, next)
}

// extension skips an extension header of IPv6 and continues at more. If the next header is another
// protocol, it continues at protocol. The length is the second byte, as in chain.skip; in a
// fragment header that byte is reserved and 0, which is right for its 8 bytes.
func (s *step) extension(more, protocol *block) *block {
	length := append(s.peek(1, SizeB), op(Add, 1), op(Lsh, 3), op(AddX, 0), op(St, s.base))
	next := goTo(more, append(store(protocolWord, s.peek(0, SizeB)), length...)...)
	first := ifSet(s.peek(0, SizeW), 0xfffff8, s.end, next)
	options := s.ifHasBytes(8, next)
	return switchOn([]*stmt{op(LdMem, protocolWord)}, protocol, jumpCase{IPHopByHop, options}, jumpCase{IPRouting, options},
		jumpCase{IPDestination, options}, jumpCase{IPFragment, s.ifHasBytes(8, first)})
}

// protocols continues by the protocol above IP.
func (s *step) protocols() *block {
	return switchOn([]*stmt{op(LdMem, protocolWord)}, s.end,
		jumpCase{IPUDP, s.udp()}, jumpCase{IPIPIP, s.arriveAs(EtherIP)}, jumpCase{IPIPv6, s.arriveAs(EtherIP6)},
		jumpCase{IPGRE, s.gre()}, jumpCase{IPEthernet, s.arriveAs(EtherTEB)}, jumpCase{IPMPLS, s.arriveAs(EtherMPLS)})
}

// udp continues by the destination port. The header of each tunnel has at least 8 bytes, and so has
// MPLS with a packet in it.
func (s *step) udp() *block {
	const header = 8
	behind := goTo(s.arrive, s.advance(header+8)...)
	is := func(typ uint32) *block { return goTo(behind, op(LdImm, typ), op(St, s.kind)) }
	frame := is(EtherTEB)
	vxlan := ifSet(s.peek(header, SizeB), 0x08, frame, s.end)
	gpe := switchOn(s.peek(header+3, SizeB), s.end, jumpCase{1, is(EtherIP)}, jumpCase{2, is(EtherIP6)}, jumpCase{3, frame}, jumpCase{5, is(EtherMPLS)})
	gpe = ifSet(s.peek(header, SizeB), 0x04, gpe, s.end)
	cases := []jumpCase{{VXLANPort, vxlan}, {VXLANOldPort, vxlan}, {VXLANGPEPort, gpe},
		{GenevePort, s.geneveHeader(header)}, {GTPPort, s.gtp(header)},
		{MPLSPort, s.arriveAs(EtherMPLS, s.advance(header)...)}}
	if s.VXLANPort != 0 {
		cases = append([]jumpCase{{s.VXLANPort, vxlan}}, cases...)
	}
	return s.ifHasBytes(header+8, switchOn(s.peek(2, SizeH), s.end, cases...))
}

// geneveHeader reads the header of Geneve, with options.
func (s *step) geneveHeader(k uint32) *block {
	options := append(s.peek(k, SizeB), op(And, 0x3f), op(Lsh, 2), op(AddX, 0), op(Add, k+8))
	next := goTo(s.arrive, append(store(s.kind, s.peek(k+2, SizeH)), store(s.base, options)...)...)
	return ifMasked(s.peek(k, SizeB), 0xc0, 0, next, s.end)
}

// gtp reads the header of GTP-U (3GPP TS 29.281), of version 1, for a message that carries a
// packet: a G-PDU.
func (s *step) gtp(k uint32) *block {
	const gPDU = 255
	packet := s.version(s.end)
	next := switchOn([]*stmt{op(LdMem, protocolWord)}, s.end, jumpCase{0, packet})
	for range maxGTPExtensions {
		next = s.gtpExtension(packet, next)
	}
	next = goTo(next, append(store(protocolWord, s.peek(k+11, SizeB)), s.advance(k+12)...)...)
	next = ifSet(s.peek(k, SizeB), 4, next, goTo(packet, s.advance(k+12)...))
	next = ifSet(s.peek(k, SizeB), 7, s.ifHasBytes(k+12, next), goTo(packet, s.advance(k+8)...))
	next = switchOn(s.peek(k+1, SizeB), s.end, jumpCase{gPDU, next})
	return ifMasked(s.peek(k, SizeB), 0xf0, 0x30, next, s.end)
}

// gtpExtension skips an extension header of GTP-U. Its first byte is its length in units of 4
// bytes. Its last byte is the type of the next header; 0 means that the packet comes next.
func (s *step) gtpExtension(packet, more *block) *block {
	next := goTo(more, append(store(protocolWord, s.peek(3, SizeB)), s.advance(4)...)...)
	next = s.ifHasBytes(4, next)
	length := append(s.peek(0, SizeB), op(Lsh, 2), op(AddX, 0), op(Sub, 4))
	next = goTo(next, store(s.base, length)...) // to its last 4 bytes
	next = switchOn(s.peek(0, SizeB), next, jumpCase{0, s.end})
	return switchOn([]*stmt{op(LdMem, protocolWord)}, s.ifHasBytes(4, next), jumpCase{0, packet})
}

// version continues by the version of IP at the position, after a header without a type field.
func (s *step) version(otherwise *block, cases ...jumpCase) *block {
	load := append(s.peek(0, SizeB), op(And, 0xf0))
	cases = append([]jumpCase{{0x40, s.arriveAs(EtherIP)}, {0x60, s.arriveAs(EtherIP6)}}, cases...)
	return s.ifHasBytes(1, switchOn(load, otherwise, cases...))
}

// gre reads the header of GRE (RFC 2784 and 2890), and of ERSPAN behind it.
func (s *step) gre() *block {
	const checksum, key, sequence = 0x80, 0x20, 0x10
	flags := func() []*stmt { return []*stmt{op(LdMem, protocolWord)} } // of the header's first byte
	plain := s.arriveAs(EtherTEB)
	erspan := ifSet(flags(), sequence, goTo(plain, s.advance(8)...), plain)
	third := goTo(plain, s.advance(12)...)
	third = ifSet(s.peek(11, SizeB), 1, goTo(third, s.advance(8)...), third)
	third = ifMasked(s.peek(10, SizeB), 0x7c, 0, third, s.drop) // the frame type is Ethernet
	third = branch(hasBytes(s.position(), 12), third, s.drop)
	next := switchOn([]*stmt{op(LdMem, s.kind)}, s.arrive, jumpCase{EtherERSPAN, erspan}, jumpCase{EtherERSPAN3, third})
	for _, flag := range []uint32{checksum, key, sequence} {
		next = ifSet(flags(), flag, goTo(next, s.advance(4)...), next)
	}
	begin := append(store(s.kind, s.peek(2, SizeH)), store(protocolWord, s.peek(0, SizeB))...)
	next = goTo(next, append(begin, s.advance(4)...)...)
	return s.ifHasBytes(4, ifMasked(s.peek(0, SizeH), 0x4007, 0, next, s.end))
}

// tags reads one or two VLAN tags. The last 2 bytes of a tag are the type of the next header.
func (s *step) tags() *block {
	second := goTo(s.arrive, append(store(s.kind, s.load(field{fromNetwork, 6}, SizeH)), s.moveTo(8)...)...)
	second = branch(hasBytes(s.payload, 8), second, s.arrive)
	next := switchOn([]*stmt{op(LdMem, s.kind)}, s.arrive, jumpCase{Ether8021Q, second}, jumpCase{Ether8021AD, second}, jumpCase{EtherQinQ, second})
	next = goTo(next, append(store(s.kind, s.load(field{fromNetwork, 2}, SizeH)), s.moveTo(4)...)...)
	return branch(hasBytes(s.payload, 4), next, s.end)
}

// labelStack reads MPLS labels up to the bottom of their stack. They have no type field: the first
// four bits behind them are IP's version, or 0 in the control word before an Ethernet frame
// (RFC 4385).
func (s *step) labelStack() *block {
	bottom := s.version(s.end, jumpCase{0, s.arriveAs(EtherTEB, s.advance(4)...)})
	next := s.arriveAs(EtherMPLS)
	for range maxLabels {
		last := ifSet(s.peek(2, SizeB), 1, goTo(bottom, s.advance(4)...), goTo(next, s.advance(4)...))
		next = s.ifHasBytes(5, last)
	}
	return goTo(next, s.moveTo(0)...)
}

// pppoe reads the headers of PPPoE and PPP.
func (s *step) pppoe() *block {
	next := switchOn(s.load(field{fromNetwork, 6}, SizeH), s.end,
		jumpCase{PPPIP, s.arriveAs(EtherIP, s.moveTo(8)...)}, jumpCase{PPPIP6, s.arriveAs(EtherIP6, s.moveTo(8)...)},
		jumpCase{PPPMPLS, s.arriveAs(EtherMPLS, s.moveTo(8)...)})
	return branch(hasBytes(s.payload, 8), next, s.end)
}

// arrival completes the words of the level, once the position and the type of a packet are stored.
// It drops a packet without bytes, and an IP packet whose header is cut off.
func (s *step) arrival() *block {
	kind := func() []*stmt { return []*stmt{op(LdMem, s.kind)} }
	header := func(k uint32) *block { return branch(hasBytes(s.position(), 14+k), s.found, s.drop) }
	whole := switchOn(append(kind(), op(And, 0xffff)), header(1), jumpCase{EtherIP, header(20)}, jumpCase{EtherIP6, header(40)})
	frame := goTo(whole, append(s.peek(12, SizeH), op(Or, isCarried|hasEthernet), op(St, s.kind))...)
	frame = branch(hasBytes(s.position(), 14), frame, s.drop)
	direct := append(kind(), op(Or, isCarried), op(St, s.kind))
	packet := goTo(whole, append(direct, op(LdMem, s.base), op(Sub, 14), op(St, s.base))...)
	return switchOn(kind(), packet, jumpCase{0, s.end}, jumpCase{EtherTEB, frame})
}
