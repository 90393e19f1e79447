package code

import (
	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/names"
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
func (g *generator) walk() *Block {
	here := g.place
	end := always(true)
	found := end
	for level := maxLevels; level >= 1; level-- {
		if g.place = g.whole; level > 1 {
			g.place = placeOf(level - 1)
		}
		s := &step{generator: g, first: level == 1, base: baseWord(level), kind: kindWord(level), found: found, end: end}
		s.drop = goTo(end, Op(cbpf.LdImm, 0), Op(cbpf.St, s.kind))
		s.arrive = s.arrival()
		found = s.begin()
	}
	g.place = here
	none := []*Stmt{Op(cbpf.LdImm, 0), Op(cbpf.St, protocolWord)}
	for level := 1; level <= maxLevels; level++ {
		none = append(none, Op(cbpf.St, baseWord(level)), Op(cbpf.St, kindWord(level)))
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
	found, end, arrive, drop *Block
}

// here is the position that the step has reached.
func (s *step) here() offset { return offset{variable: true, slot: int(s.base)} }

// at returns the code that loads bytes at the position.
func (s *step) at(k uint32, size int) []*Stmt {
	here := s.here()
	return s.loadAt(&here, k, size)
}

// advance returns the code that moves the position.
func (s *step) advance(k uint32) []*Stmt {
	return []*Stmt{Op(cbpf.LdMem, s.base), Op(cbpf.Add, k), Op(cbpf.St, s.base)}
}

// start returns the code that sets the position to the network header of the level before, and some
// bytes more.
func (s *step) start(k uint32) []*Stmt {
	if !s.payload.variable {
		return []*Stmt{Op(cbpf.LdImm, s.payload.constant+k), Op(cbpf.St, s.base)}
	}
	return []*Stmt{Op(cbpf.LdMem, uint32(s.payload.slot)), Op(cbpf.Add, s.payload.constant+k), Op(cbpf.St, s.base)}
}

// store returns the code that stores what is loaded.
func store(word uint32, load []*Stmt) []*Stmt { return append(load, Op(cbpf.St, word)) }

// carries continues with a packet of a type, whose position is known.
func (s *step) carries(typ uint32, position ...*Stmt) *Block {
	return goTo(s.arrive, append(position, Op(cbpf.LdImm, typ), Op(cbpf.St, s.kind))...)
}

// reaches tests whether the packet has k bytes from a position.
func reaches(o offset, k uint32) *Block {
	if !o.variable {
		return New(cbpf.Jge, o.constant+k, Op(cbpf.LdLen, 0))
	}
	return New(cbpf.JgeX, 0, Op(cbpf.LdMem, uint32(o.slot)), Op(cbpf.Add, o.constant+k), Op(cbpf.Tax, 0), Op(cbpf.LdLen, 0))
}

// ifReaches continues at yes if the packet has k bytes from the position.
func (s *step) ifReaches(k uint32, yes *Block) *Block { return Close(reaches(s.here(), k), yes, s.end) }

// A way is where a value leads.
type way struct {
	value uint32
	to    *Block
}

// choose continues as the loaded value says.
func choose(load []*Stmt, otherwise *Block, ways ...way) *Block {
	for i := len(ways) - 1; i >= 0; i-- {
		otherwise = Close(New(cbpf.Jeq, ways[i].value, fresh(load)...), ways[i].to, otherwise)
	}
	return otherwise
}

// fresh returns a copy of statements, since blocks do not share them.
func fresh(stmts []*Stmt) (all []*Stmt) {
	for _, s := range stmts {
		all = append(all, Op(s.Code, s.K))
	}
	return all
}

// ifMasked continues at yes if the loaded value has this value under a mask.
func ifMasked(load []*Stmt, mask, value uint32, yes, no *Block) *Block {
	return Close(New(cbpf.Jeq, value, append(load, Op(cbpf.And, mask))...), yes, no)
}

// ifSet continues at yes if the loaded value has one of these bits.
func ifSet(load []*Stmt, bits uint32, yes, no *Block) *Block {
	return Close(New(cbpf.Jset, bits, load...), yes, no)
}

// begin looks at the type of the level before.
func (s *step) begin() *Block {
	protocol := s.protocols()
	is := func(typ uint32, yes, no *Block) *Block { return Close(s.linkIs(syntax.Token{}, typ), yes, no) }
	next := is(names.EtherPPPoES, s.pppoe(), s.end)
	labels := s.labelStack()
	next = is(names.EtherMPLS, labels, is(names.EtherMPLSUp, labels, next))
	tags := s.tags()
	next = is(names.Ether8021Q, tags, is(names.Ether8021AD, tags, is(names.EtherQinQ, tags, next)))
	next = is(names.EtherIP, s.ipv4(protocol), is(names.EtherIP6, s.ipv6(protocol), next))
	if s.first {
		next = Close(reaches(s.payload, 1), next, s.end)
	}
	return next
}

// ifWhole continues at yes if the packet has all k bytes of the header after the link header. Of an
// inner packet the arrival has tested it already.
func (s *step) ifWhole(k uint32, yes *Block) *Block {
	if s.first {
		return Close(reaches(s.payload, k), yes, s.end)
	}
	return yes
}

// ipv4 reads the header of IPv4.
func (s *step) ipv4(protocol *Block) *Block {
	length := s.ipv4Length()
	length = append(length, Op(cbpf.Txa, 0), Op(cbpf.Add, s.payload.constant), Op(cbpf.St, s.base))
	next := goTo(protocol, append(store(protocolWord, s.load(field{fromNetwork, 9}, cbpf.SizeB)), length...)...)
	next = Close(s.firstFragment(), next, s.end)
	next = Close(s.compare(field{fromNetwork, 0}, cbpf.SizeB, cbpf.OpJgt, 0x4f), s.end, next)
	next = Close(s.compare(field{fromNetwork, 0}, cbpf.SizeB, cbpf.OpJge, 0x45), next, s.end)
	return s.ifWhole(20, next)
}

// ipv6 reads the header of IPv6 and its extension headers.
func (s *step) ipv6(protocol *Block) *Block {
	next := protocol
	for range maxExtensions {
		next = s.extension(next, protocol)
	}
	next = goTo(next, append(store(protocolWord, s.load(field{fromNetwork, 6}, cbpf.SizeB)), s.start(40)...)...)
	next = ifMasked(s.load(field{fromNetwork, 0}, cbpf.SizeB), 0xf0, 0x60, next, s.end)
	return s.ifWhole(40, next)
}

// extension passes an extension header of IPv6, and continues at more; where there is none, at
// protocol. The length is the second byte, as in chain.skip. In a fragment header that byte is
// reserved, and 0: with it, the length comes out right.
func (s *step) extension(more, protocol *Block) *Block {
	length := append(s.at(1, cbpf.SizeB), Op(cbpf.Add, 1), Op(cbpf.Lsh, 3), Op(cbpf.AddX, 0), Op(cbpf.St, s.base))
	next := goTo(more, append(store(protocolWord, s.at(0, cbpf.SizeB)), length...)...)
	first := ifSet(s.at(0, cbpf.SizeW), 0xfffff8, s.end, next)
	options := s.ifReaches(8, next)
	return choose([]*Stmt{Op(cbpf.LdMem, protocolWord)}, protocol, way{names.IPHopByHop, options}, way{names.IPRouting, options},
		way{names.IPDestination, options}, way{names.IPFragment, s.ifReaches(8, first)})
}

// protocols looks at the protocol above IP.
func (s *step) protocols() *Block {
	return choose([]*Stmt{Op(cbpf.LdMem, protocolWord)}, s.end,
		way{names.IPUDP, s.udp()}, way{names.IPIPIP, s.carries(names.EtherIP)}, way{names.IPIPv6, s.carries(names.EtherIP6)},
		way{names.IPGRE, s.gre()}, way{names.IPEthernet, s.carries(names.EtherTEB)}, way{names.IPMPLS, s.carries(names.EtherMPLS)})
}

// udp looks at the destination port. The header of each tunnel has at least 8 bytes; for MPLS, the
// packet has.
func (s *step) udp() *Block {
	const header = 8
	behind := goTo(s.arrive, s.advance(header+8)...)
	is := func(typ uint32) *Block { return goTo(behind, Op(cbpf.LdImm, typ), Op(cbpf.St, s.kind)) }
	frame := is(names.EtherTEB)
	vxlan := ifSet(s.at(header, cbpf.SizeB), 0x08, frame, s.end)
	gpe := choose(s.at(header+3, cbpf.SizeB), s.end, way{1, is(names.EtherIP)}, way{2, is(names.EtherIP6)}, way{3, frame}, way{5, is(names.EtherMPLS)})
	gpe = ifSet(s.at(header, cbpf.SizeB), 0x04, gpe, s.end)
	ways := []way{{names.VXLANPort, vxlan}, {names.VXLANOldPort, vxlan}, {names.VXLANGPEPort, gpe},
		{names.GenevePort, s.geneveHeader(header)}, {names.GTPPort, s.gtp(header)},
		{names.MPLSPort, s.carries(names.EtherMPLS, s.advance(header)...)}}
	if s.vxlanPort != 0 {
		ways = append([]way{{s.vxlanPort, vxlan}}, ways...)
	}
	return s.ifReaches(header+8, choose(s.at(2, cbpf.SizeH), s.end, ways...))
}

// geneveHeader reads the header of Geneve, with options.
func (s *step) geneveHeader(k uint32) *Block {
	options := append(s.at(k, cbpf.SizeB), Op(cbpf.And, 0x3f), Op(cbpf.Lsh, 2), Op(cbpf.AddX, 0), Op(cbpf.Add, k+8))
	next := goTo(s.arrive, append(store(s.kind, s.at(k+2, cbpf.SizeH)), store(s.base, options)...)...)
	return ifMasked(s.at(k, cbpf.SizeB), 0xc0, 0, next, s.end)
}

// gtp reads the header of GTP-U (3GPP TS 29.281), of version 1, for a message that carries a
// packet.
func (s *step) gtp(k uint32) *Block {
	const message = 255
	packet := s.version(s.end)
	next := choose([]*Stmt{Op(cbpf.LdMem, protocolWord)}, s.end, way{0, packet})
	for range maxGTPExtensions {
		next = s.gtpExtension(packet, next)
	}
	next = goTo(next, append(store(protocolWord, s.at(k+11, cbpf.SizeB)), s.advance(k+12)...)...)
	next = ifSet(s.at(k, cbpf.SizeB), 4, next, goTo(packet, s.advance(k+12)...))
	next = ifSet(s.at(k, cbpf.SizeB), 7, s.ifReaches(k+12, next), goTo(packet, s.advance(k+8)...))
	next = choose(s.at(k+1, cbpf.SizeB), s.end, way{message, next})
	return ifMasked(s.at(k, cbpf.SizeB), 0xf0, 0x30, next, s.end)
}

// gtpExtension passes an extension header of GTP-U: its first byte is its length in units of 4
// bytes, its last one the type of the next header, and 0 means that the packet comes next.
func (s *step) gtpExtension(packet, more *Block) *Block {
	next := goTo(more, append(store(protocolWord, s.at(3, cbpf.SizeB)), s.advance(4)...)...)
	next = s.ifReaches(4, next)
	length := append(s.at(0, cbpf.SizeB), Op(cbpf.Lsh, 2), Op(cbpf.AddX, 0), Op(cbpf.Sub, 4))
	next = goTo(next, store(s.base, length)...) // to its last 4 bytes
	next = choose(s.at(0, cbpf.SizeB), next, way{0, s.end})
	return choose([]*Stmt{Op(cbpf.LdMem, protocolWord)}, s.ifReaches(4, next), way{0, packet})
}

// version looks at the version of IP at the position, where there is no type.
func (s *step) version(otherwise *Block, ways ...way) *Block {
	load := append(s.at(0, cbpf.SizeB), Op(cbpf.And, 0xf0))
	ways = append([]way{{0x40, s.carries(names.EtherIP)}, {0x60, s.carries(names.EtherIP6)}}, ways...)
	return s.ifReaches(1, choose(load, otherwise, ways...))
}

// gre reads the header of GRE (RFC 2784 and 2890), and of ERSPAN behind it.
func (s *step) gre() *Block {
	const checksum, key, sequence = 0x80, 0x20, 0x10
	flags := func() []*Stmt { return []*Stmt{Op(cbpf.LdMem, protocolWord)} }
	plain := s.carries(names.EtherTEB)
	erspan := ifSet(flags(), sequence, goTo(plain, s.advance(8)...), plain)
	third := goTo(plain, s.advance(12)...)
	third = ifSet(s.at(11, cbpf.SizeB), 1, goTo(third, s.advance(8)...), third)
	third = ifMasked(s.at(10, cbpf.SizeB), 0x7c, 0, third, s.drop) // the frame type is Ethernet
	third = Close(reaches(s.here(), 12), third, s.drop)
	next := choose([]*Stmt{Op(cbpf.LdMem, s.kind)}, s.arrive, way{names.EtherERSPAN, erspan}, way{names.EtherERSPAN3, third})
	for _, flag := range []uint32{checksum, key, sequence} {
		next = ifSet(flags(), flag, goTo(next, s.advance(4)...), next)
	}
	begin := append(store(s.kind, s.at(2, cbpf.SizeH)), store(protocolWord, s.at(0, cbpf.SizeB))...)
	next = goTo(next, append(begin, s.advance(4)...)...)
	return s.ifReaches(4, ifMasked(s.at(0, cbpf.SizeH), 0x4007, 0, next, s.end))
}

// tags reads VLAN tags, of which the type comes last.
func (s *step) tags() *Block {
	second := goTo(s.arrive, append(store(s.kind, s.load(field{fromNetwork, 6}, cbpf.SizeH)), s.start(8)...)...)
	second = Close(reaches(s.payload, 8), second, s.arrive)
	next := choose([]*Stmt{Op(cbpf.LdMem, s.kind)}, s.arrive, way{names.Ether8021Q, second}, way{names.Ether8021AD, second}, way{names.EtherQinQ, second})
	next = goTo(next, append(store(s.kind, s.load(field{fromNetwork, 2}, cbpf.SizeH)), s.start(4)...)...)
	return Close(reaches(s.payload, 4), next, s.end)
}

// labelStack reads MPLS labels up to the bottom of their stack. There is no type behind it: the
// first four bits are IP's version, or 0 in the control word before an Ethernet frame (RFC 4385).
func (s *step) labelStack() *Block {
	bottom := s.version(s.end, way{0, s.carries(names.EtherTEB, s.advance(4)...)})
	next := s.carries(names.EtherMPLS)
	for range maxLabels {
		last := ifSet(s.at(2, cbpf.SizeB), 1, goTo(bottom, s.advance(4)...), goTo(next, s.advance(4)...))
		next = s.ifReaches(5, last)
	}
	return goTo(next, s.start(0)...)
}

// pppoe reads the headers of PPPoE and PPP.
func (s *step) pppoe() *Block {
	next := choose(s.load(field{fromNetwork, 6}, cbpf.SizeH), s.end,
		way{names.PPPIP, s.carries(names.EtherIP, s.start(8)...)}, way{names.PPPIP6, s.carries(names.EtherIP6, s.start(8)...)},
		way{names.PPPMPLS, s.carries(names.EtherMPLS, s.start(8)...)})
	return Close(reaches(s.payload, 8), next, s.end)
}

// arrival completes the words of the level, once the position and the type of a packet are known.
// An IP packet whose header is cut off is none, nor are 0 bytes.
func (s *step) arrival() *Block {
	kind := func() []*Stmt { return []*Stmt{Op(cbpf.LdMem, s.kind)} }
	header := func(k uint32) *Block { return Close(reaches(s.here(), 14+k), s.found, s.drop) }
	whole := choose(append(kind(), Op(cbpf.And, 0xffff)), header(1), way{names.EtherIP, header(20)}, way{names.EtherIP6, header(40)})
	frame := goTo(whole, append(s.at(12, cbpf.SizeH), Op(cbpf.Or, isCarried|hasEthernet), Op(cbpf.St, s.kind))...)
	frame = Close(reaches(s.here(), 14), frame, s.drop)
	direct := append(kind(), Op(cbpf.Or, isCarried), Op(cbpf.St, s.kind))
	packet := goTo(whole, append(direct, Op(cbpf.LdMem, s.base), Op(cbpf.Sub, 14), Op(cbpf.St, s.base))...)
	return choose(kind(), packet, way{0, s.end}, way{names.EtherTEB, frame})
}
