package cbpf

import (
	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// How many headers of a kind the walk passes to find the packet behind them. More tags and labels
// are a packet of the next level.
const (
	maxLabels        = 4
	maxExtensions    = 4
	maxGTPExtensions = 3
)

// walk generates the search for the packets inside the whole one, whatever words like vlan have
// moved. It ends at the first header that carries none, and where the packet is too short for the
// next one: that ends the walk, and not the filter.
func (g *generator) walk() *block {
	here := g.place
	end := always(true)
	found := end
	for level := maxLevels; level >= 1; level-- {
		if g.place = g.whole; level > 1 {
			g.place = placeOf(level - 1)
		}
		s := &step{generator: g, first: level == 1, base: baseWord(level), kind: kindWord(level), found: found, end: end}
		s.drop = goTo(end, op(LdImm, 0), op(St, s.kind))
		s.arrive = s.arrival()
		found = s.begin()
	}
	g.place = here
	none := []*stmt{op(LdImm, 0), op(St, protocolWord)}
	for level := 1; level <= maxLevels; level++ {
		none = append(none, op(St, baseWord(level)), op(St, kindWord(level)))
	}
	end.first = goTo(found, none...)
	return end
}

// A step is the part of the walk that finds the packet of one level, from the place of the level
// before. While it searches, the base word has the position that it has reached.
type step struct {
	*generator
	first      bool   // the level before is the whole packet
	base, kind uint32 // the scratch words of the level

	// Where it continues: at found if there is a packet, and at end if there is none. A jump to
	// arrive comes after the position and the type of a packet were stored. A jump to drop comes
	// after a type was stored, if there is no such packet after all.
	found, end, arrive, drop *block
}

// here is the position that the step has reached.
func (s *step) here() offset { return offset{variable: true, slot: int(s.base)} }

// at returns the code that loads bytes at the position.
func (s *step) at(k uint32, size int) []*stmt {
	here := s.here()
	return s.loadAt(&here, k, size)
}

// advance returns the code that moves the position.
func (s *step) advance(k uint32) []*stmt {
	return []*stmt{op(LdMem, s.base), op(Add, k), op(St, s.base)}
}

// start returns the code that sets the position to the network header of the level before, and some
// bytes more.
func (s *step) start(k uint32) []*stmt {
	if !s.payload.variable {
		return []*stmt{op(LdImm, s.payload.constant+k), op(St, s.base)}
	}
	return []*stmt{op(LdMem, uint32(s.payload.slot)), op(Add, s.payload.constant+k), op(St, s.base)}
}

// store returns the code that stores what is loaded.
func store(word uint32, load []*stmt) []*stmt { return append(load, op(St, word)) }

// carries continues with a packet of a type, whose position is known.
func (s *step) carries(typ uint32, position ...*stmt) *block {
	return goTo(s.arrive, append(position, op(LdImm, typ), op(St, s.kind))...)
}

// reaches tests whether the packet has k bytes from a position.
func reaches(o offset, k uint32) *block {
	if !o.variable {
		return newBlock(Jge, o.constant+k, op(LdLen, 0))
	}
	return newBlock(JgeX, 0, op(LdMem, uint32(o.slot)), op(Add, o.constant+k), op(Tax, 0), op(LdLen, 0))
}

// ifReaches continues at yes if the packet has k bytes from the position.
func (s *step) ifReaches(k uint32, yes *block) *block {
	return branch(reaches(s.here(), k), yes, s.end)
}

// A way is where a value leads.
type way struct {
	value uint32
	to    *block
}

// choose continues as the loaded value says.
func choose(load []*stmt, otherwise *block, ways ...way) *block {
	for i := len(ways) - 1; i >= 0; i-- {
		otherwise = branch(newBlock(Jeq, ways[i].value, fresh(load)...), ways[i].to, otherwise)
	}
	return otherwise
}

// fresh returns a copy of statements, since blocks do not share them.
func fresh(stmts []*stmt) (all []*stmt) {
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

// begin looks at the type of the level before.
func (s *step) begin() *block {
	protocol := s.protocols()
	is := func(typ uint32, yes, no *block) *block { return branch(s.linkIs(syntax.Token{}, typ), yes, no) }
	next := is(EtherPPPoES, s.pppoe(), s.end)
	labels := s.labelStack()
	next = is(EtherMPLS, labels, is(EtherMPLSUp, labels, next))
	tags := s.tags()
	next = is(Ether8021Q, tags, is(Ether8021AD, tags, is(EtherQinQ, tags, next)))
	next = is(EtherIP, s.ipv4(protocol), is(EtherIP6, s.ipv6(protocol), next))
	if s.first {
		next = branch(reaches(s.payload, 1), next, s.end)
	}
	return next
}

// ifWhole continues at yes if the packet has all k bytes of the header after the link header. Of an
// inner packet the arrival has tested it already.
func (s *step) ifWhole(k uint32, yes *block) *block {
	if s.first {
		return branch(reaches(s.payload, k), yes, s.end)
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
	next = goTo(next, append(store(protocolWord, s.load(field{fromNetwork, 6}, SizeB)), s.start(40)...)...)
	next = ifMasked(s.load(field{fromNetwork, 0}, SizeB), 0xf0, 0x60, next, s.end)
	return s.ifWhole(40, next)
}

// extension passes an extension header of IPv6, and continues at more; where there is none, at
// protocol. The length is the second byte, as in chain.skip. In a fragment header that byte is
// reserved, and 0: with it, the length comes out right.
func (s *step) extension(more, protocol *block) *block {
	length := append(s.at(1, SizeB), op(Add, 1), op(Lsh, 3), op(AddX, 0), op(St, s.base))
	next := goTo(more, append(store(protocolWord, s.at(0, SizeB)), length...)...)
	first := ifSet(s.at(0, SizeW), 0xfffff8, s.end, next)
	options := s.ifReaches(8, next)
	return choose([]*stmt{op(LdMem, protocolWord)}, protocol, way{IPHopByHop, options}, way{IPRouting, options},
		way{IPDestination, options}, way{IPFragment, s.ifReaches(8, first)})
}

// protocols looks at the protocol above IP.
func (s *step) protocols() *block {
	return choose([]*stmt{op(LdMem, protocolWord)}, s.end,
		way{IPUDP, s.udp()}, way{IPIPIP, s.carries(EtherIP)}, way{IPIPv6, s.carries(EtherIP6)},
		way{IPGRE, s.gre()}, way{IPEthernet, s.carries(EtherTEB)}, way{IPMPLS, s.carries(EtherMPLS)})
}

// udp looks at the destination port. The header of each tunnel has at least 8 bytes; for MPLS, the
// packet has.
func (s *step) udp() *block {
	const header = 8
	behind := goTo(s.arrive, s.advance(header+8)...)
	is := func(typ uint32) *block { return goTo(behind, op(LdImm, typ), op(St, s.kind)) }
	frame := is(EtherTEB)
	vxlan := ifSet(s.at(header, SizeB), 0x08, frame, s.end)
	gpe := choose(s.at(header+3, SizeB), s.end, way{1, is(EtherIP)}, way{2, is(EtherIP6)}, way{3, frame}, way{5, is(EtherMPLS)})
	gpe = ifSet(s.at(header, SizeB), 0x04, gpe, s.end)
	ways := []way{{VXLANPort, vxlan}, {VXLANOldPort, vxlan}, {VXLANGPEPort, gpe},
		{GenevePort, s.geneveHeader(header)}, {GTPPort, s.gtp(header)},
		{MPLSPort, s.carries(EtherMPLS, s.advance(header)...)}}
	if s.vxlanPort != 0 {
		ways = append([]way{{s.vxlanPort, vxlan}}, ways...)
	}
	return s.ifReaches(header+8, choose(s.at(2, SizeH), s.end, ways...))
}

// geneveHeader reads the header of Geneve, with options.
func (s *step) geneveHeader(k uint32) *block {
	options := append(s.at(k, SizeB), op(And, 0x3f), op(Lsh, 2), op(AddX, 0), op(Add, k+8))
	next := goTo(s.arrive, append(store(s.kind, s.at(k+2, SizeH)), store(s.base, options)...)...)
	return ifMasked(s.at(k, SizeB), 0xc0, 0, next, s.end)
}

// gtp reads the header of GTP-U (3GPP TS 29.281), of version 1, for a message that carries a
// packet.
func (s *step) gtp(k uint32) *block {
	const message = 255
	packet := s.version(s.end)
	next := choose([]*stmt{op(LdMem, protocolWord)}, s.end, way{0, packet})
	for range maxGTPExtensions {
		next = s.gtpExtension(packet, next)
	}
	next = goTo(next, append(store(protocolWord, s.at(k+11, SizeB)), s.advance(k+12)...)...)
	next = ifSet(s.at(k, SizeB), 4, next, goTo(packet, s.advance(k+12)...))
	next = ifSet(s.at(k, SizeB), 7, s.ifReaches(k+12, next), goTo(packet, s.advance(k+8)...))
	next = choose(s.at(k+1, SizeB), s.end, way{message, next})
	return ifMasked(s.at(k, SizeB), 0xf0, 0x30, next, s.end)
}

// gtpExtension passes an extension header of GTP-U: its first byte is its length in units of 4
// bytes, its last one the type of the next header, and 0 means that the packet comes next.
func (s *step) gtpExtension(packet, more *block) *block {
	next := goTo(more, append(store(protocolWord, s.at(3, SizeB)), s.advance(4)...)...)
	next = s.ifReaches(4, next)
	length := append(s.at(0, SizeB), op(Lsh, 2), op(AddX, 0), op(Sub, 4))
	next = goTo(next, store(s.base, length)...) // to its last 4 bytes
	next = choose(s.at(0, SizeB), next, way{0, s.end})
	return choose([]*stmt{op(LdMem, protocolWord)}, s.ifReaches(4, next), way{0, packet})
}

// version looks at the version of IP at the position, where there is no type.
func (s *step) version(otherwise *block, ways ...way) *block {
	load := append(s.at(0, SizeB), op(And, 0xf0))
	ways = append([]way{{0x40, s.carries(EtherIP)}, {0x60, s.carries(EtherIP6)}}, ways...)
	return s.ifReaches(1, choose(load, otherwise, ways...))
}

// gre reads the header of GRE (RFC 2784 and 2890), and of ERSPAN behind it.
func (s *step) gre() *block {
	const checksum, key, sequence = 0x80, 0x20, 0x10
	flags := func() []*stmt { return []*stmt{op(LdMem, protocolWord)} }
	plain := s.carries(EtherTEB)
	erspan := ifSet(flags(), sequence, goTo(plain, s.advance(8)...), plain)
	third := goTo(plain, s.advance(12)...)
	third = ifSet(s.at(11, SizeB), 1, goTo(third, s.advance(8)...), third)
	third = ifMasked(s.at(10, SizeB), 0x7c, 0, third, s.drop) // the frame type is Ethernet
	third = branch(reaches(s.here(), 12), third, s.drop)
	next := choose([]*stmt{op(LdMem, s.kind)}, s.arrive, way{EtherERSPAN, erspan}, way{EtherERSPAN3, third})
	for _, flag := range []uint32{checksum, key, sequence} {
		next = ifSet(flags(), flag, goTo(next, s.advance(4)...), next)
	}
	begin := append(store(s.kind, s.at(2, SizeH)), store(protocolWord, s.at(0, SizeB))...)
	next = goTo(next, append(begin, s.advance(4)...)...)
	return s.ifReaches(4, ifMasked(s.at(0, SizeH), 0x4007, 0, next, s.end))
}

// tags reads VLAN tags, of which the type comes last.
func (s *step) tags() *block {
	second := goTo(s.arrive, append(store(s.kind, s.load(field{fromNetwork, 6}, SizeH)), s.start(8)...)...)
	second = branch(reaches(s.payload, 8), second, s.arrive)
	next := choose([]*stmt{op(LdMem, s.kind)}, s.arrive, way{Ether8021Q, second}, way{Ether8021AD, second}, way{EtherQinQ, second})
	next = goTo(next, append(store(s.kind, s.load(field{fromNetwork, 2}, SizeH)), s.start(4)...)...)
	return branch(reaches(s.payload, 4), next, s.end)
}

// labelStack reads MPLS labels up to the bottom of their stack. There is no type behind it: the
// first four bits are IP's version, or 0 in the control word before an Ethernet frame (RFC 4385).
func (s *step) labelStack() *block {
	bottom := s.version(s.end, way{0, s.carries(EtherTEB, s.advance(4)...)})
	next := s.carries(EtherMPLS)
	for range maxLabels {
		last := ifSet(s.at(2, SizeB), 1, goTo(bottom, s.advance(4)...), goTo(next, s.advance(4)...))
		next = s.ifReaches(5, last)
	}
	return goTo(next, s.start(0)...)
}

// pppoe reads the headers of PPPoE and PPP.
func (s *step) pppoe() *block {
	next := choose(s.load(field{fromNetwork, 6}, SizeH), s.end,
		way{PPPIP, s.carries(EtherIP, s.start(8)...)}, way{PPPIP6, s.carries(EtherIP6, s.start(8)...)},
		way{PPPMPLS, s.carries(EtherMPLS, s.start(8)...)})
	return branch(reaches(s.payload, 8), next, s.end)
}

// arrival completes the words of the level, once the position and the type of a packet are known.
// An IP packet whose header is cut off is none, nor are 0 bytes.
func (s *step) arrival() *block {
	kind := func() []*stmt { return []*stmt{op(LdMem, s.kind)} }
	header := func(k uint32) *block { return branch(reaches(s.here(), 14+k), s.found, s.drop) }
	whole := choose(append(kind(), op(And, 0xffff)), header(1), way{EtherIP, header(20)}, way{EtherIP6, header(40)})
	frame := goTo(whole, append(s.at(12, SizeH), op(Or, isCarried|hasEthernet), op(St, s.kind))...)
	frame = branch(reaches(s.here(), 14), frame, s.drop)
	direct := append(kind(), op(Or, isCarried), op(St, s.kind))
	packet := goTo(whole, append(direct, op(LdMem, s.base), op(Sub, 14), op(St, s.base))...)
	return choose(kind(), packet, way{0, s.end}, way{EtherTEB, frame})
}
