package filtertest

import (
	"encoding/binary"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// A packet is a frame, or a packet inside another one.
type packet struct {
	depth int    // the number of packets around it
	typ   uint32 // its EtherType
	at    int    // the position behind its link header
	frame bool   // it has an Ethernet header right before
}

// deepest is the maximum depth of a packet for inner.
const deepest = 4

// first returns the packet in which the walk over the tree begins: behind VLAN tags, if shift is
// not 0.
func (w *walk) first(shift uint32) packet {
	p := packet{}
	b := w.pkt
	switch {
	case w.Link == headers.Ethernet && len(b) >= 14:
		p = packet{typ: uint32(binary.BigEndian.Uint16(b[12:])), at: 14}
	case w.Link == headers.Cooked && len(b) >= 16:
		p = packet{typ: uint32(binary.BigEndian.Uint16(b[14:])), at: 16}
	case w.Link == headers.Cooked2 && len(b) >= 20:
		p = packet{typ: uint32(binary.BigEndian.Uint16(b)), at: 20}
	case w.Link == headers.Raw && len(b) > 0:
		p = packet{typ: map[byte]uint32{4: 0x800, 6: 0x86dd}[b[0]>>4]}
	case w.Link == headers.Loopback && len(b) >= 4:
		family := binary.BigEndian.Uint32(b)
		if family > 0xff {
			family = binary.LittleEndian.Uint32(b)
		}
		p = packet{typ: map[uint32]uint32{2: 0x800, 24: 0x86dd, 28: 0x86dd, 30: 0x86dd}[family], at: 4}
	}
	if at := int(14 + shift); shift > 0 {
		if p = (packet{depth: 1, at: at}); at <= len(b) {
			p.typ = uint32(binary.BigEndian.Uint16(b[at-2:]))
		}
	}
	return p
}

// inner reports whether an expression holds for a packet inside the current one. Afterwards the
// place is the same as before.
func (w *walk) inner(x syntax.Expr) bool {
	place, around := w.place, w.packet
	defer func() { w.place, w.packet = place, around }()
	for p, ok := around.inside(w.pkt, w.VXLANPort); ok && p.depth <= deepest; p, ok = p.inside(w.pkt, w.VXLANPort) {
		w.packet = p
		header, body := uint64(p.at-14), uint64(p.at)
		w.place = placeIn(p, header, body)
		if w.expr(x, true) {
			return true
		}
	}
	return false
}

func placeIn(p packet, header, body uint64) place {
	return place{kind: "ethernet", header: header, typ: body - 2, body: body, withoutSNAP: 3, noEthernet: !p.frame, bare: !p.frame, given: &p.typ}
}

// A content is the rest of a packet behind the headers that were read.
type content struct {
	pkt   []byte
	at    int
	vxlan uint16 // another port of VXLAN
}

// noPacket is the panic of a header that is cut off, or that carries no packet.
type noPacket struct{}

// take returns the next bytes.
func (c *content) take(n int) []byte {
	if c.at+n > len(c.pkt) {
		panic(noPacket{})
	}
	c.at += n
	return c.pkt[c.at-n : c.at]
}

// must ends the search if a header carries no packet.
func must(ok bool) {
	if !ok {
		panic(noPacket{})
	}
}

// inside returns the packet that a packet carries, if there is one.
func (p packet) inside(pkt []byte, vxlan uint16) (carried packet, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(noPacket); !is {
				panic(r)
			}
			carried, ok = packet{}, false
		}
	}()
	c := &content{pkt, p.at, vxlan}
	switch p.typ {
	case 0x800:
		carried = c.ipv4()
	case 0x86dd:
		carried = c.ipv6()
	case 0x8100, 0x88a8, 0x9100:
		carried = c.tag()
		if again := *c; !carried.frame && isTag(carried.typ) && again.at+4 <= len(pkt) {
			carried = again.tag()
		}
	case 0x8847, 0x8848:
		carried = c.labels()
	case 0x8864:
		header := c.take(8)
		typ := map[uint16]uint32{0x21: 0x800, 0x57: 0x86dd, 0x281: 0x8847}[binary.BigEndian.Uint16(header[6:])]
		carried = c.packet(typ)
	default:
		return packet{}, false
	}
	// It is at least a byte long, and an IP header is whole.
	body := &content{pkt: pkt, at: carried.at}
	body.take(map[uint32]int{0x800: 20, 0x86dd: 40}[carried.typ])
	must(carried.at < len(pkt))
	carried.depth = p.depth + 1
	return carried, true
}

// packet returns a packet of a type, which comes next. Transparent Ethernet bridging has an
// Ethernet header.
func (c *content) packet(typ uint32) packet {
	must(typ != 0)
	if typ == 0x6558 {
		header := c.take(14)
		return packet{typ: uint32(binary.BigEndian.Uint16(header[12:])), at: c.at, frame: true}
	}
	return packet{typ: typ, at: c.at}
}

func (c *content) tag() packet { return c.packet(uint32(binary.BigEndian.Uint16(c.take(4)[2:]))) }

// labels reads up to four MPLS labels. If there are more, these are a packet of their own.
func (c *content) labels() packet {
	for range 4 {
		last := c.take(4)[2]&1 == 1
		peek := *c
		first := peek.take(1)[0]
		if !last {
			continue
		}
		switch first >> 4 {
		case 4:
			return c.packet(0x800)
		case 6:
			return c.packet(0x86dd)
		case 0:
			c.take(4) // a control word
			return c.packet(0x6558)
		}
		panic(noPacket{})
	}
	return c.packet(0x8847)
}

func (c *content) ipv4() packet {
	h := c.take(20)
	words := int(h[0] & 0xf)
	must(h[0]>>4 == 4 && words >= 5)
	must(binary.BigEndian.Uint16(h[6:])&0x1fff == 0)
	c.at += 4 * (words - 5)
	return c.above(h[9])
}

func (c *content) ipv6() packet {
	h := c.take(40)
	must(h[0]>>4 == 6)
	next := h[6]
	for range 4 {
		switch next {
		case 0, 43, 60: // options, routing
			e := c.take(8)
			next = e[0]
			c.at += 8 * int(e[1])
		case 44: // a fragment, which must be the first
			e := c.take(8)
			must(e[1] == 0 && binary.BigEndian.Uint16(e[2:])>>3 == 0)
			next = e[0]
		}
	}
	return c.above(next)
}

// above reads the headers of a protocol above IP.
func (c *content) above(protocol byte) packet {
	switch protocol {
	case 4:
		return c.packet(0x800)
	case 41:
		return c.packet(0x86dd)
	case 143:
		return c.packet(0x6558)
	case 137:
		return c.packet(0x8847)
	case 47:
		return c.gre()
	case 17:
		h := c.take(8)
		peek := *c
		return c.tunnel(binary.BigEndian.Uint16(h[2:]), peek.take(8))
	}
	panic(noPacket{})
}

func (c *content) gre() packet {
	h := c.take(4)
	must(h[0]&0x40 == 0 && h[1]&7 == 0)
	for bit := byte(0x80); bit >= 0x10; bit >>= 1 { // checksum, key, sequence
		if h[0]&bit != 0 {
			c.at += 4
		}
	}
	typ := uint32(binary.BigEndian.Uint16(h[2:]))
	switch typ {
	case 0x88be: // ERSPAN: type II has a header, type I none
		if h[0]&0x10 != 0 {
			c.at += 8
		}
		typ = 0x6558
	case 0x22eb: // type III
		header := c.take(12)
		must(header[10]>>2&0x1f == 0) // Ethernet
		if header[11]&1 == 1 {
			c.at += 8
		}
		typ = 0x6558
	}
	return c.packet(typ)
}

// tunnel reads a header over UDP, of which h has the first 8 bytes.
func (c *content) tunnel(port uint16, h []byte) packet {
	if c.vxlan != 0 && port == c.vxlan {
		port = 4789
	}
	switch port {
	case 4789, 8472:
		must(h[0]&8 != 0)
		c.take(8)
		return c.packet(0x6558)
	case 4790:
		must(h[0]&4 != 0)
		c.take(8)
		return c.packet(map[byte]uint32{1: 0x800, 2: 0x86dd, 3: 0x6558, 5: 0x8847}[h[3]])
	case 6081:
		must(h[0]>>6 == 0)
		c.at += 8 + 4*int(h[0]&0x3f)
		return c.packet(uint32(binary.BigEndian.Uint16(h[2:])))
	case 6635:
		return c.packet(0x8847)
	case 2152:
		return c.gtp()
	}
	panic(noPacket{})
}

func (c *content) gtp() packet {
	h := c.take(8)
	must(h[0]>>5 == 1 && h[0]&0x10 != 0 && h[1] == 255)
	if h[0]&7 != 0 {
		next := c.take(4)[3]
		for i := 0; h[0]&4 != 0 && next != 0; i++ {
			must(i < 3)
			length := c.take(4)[0]
			must(length > 0)
			c.at += 4 * (int(length) - 1)
			must(c.at <= len(c.pkt))
			next = c.pkt[c.at-1]
		}
	}
	peek := *c
	return c.packet(map[byte]uint32{4: 0x800, 6: 0x86dd}[peek.take(1)[0]>>4])
}
