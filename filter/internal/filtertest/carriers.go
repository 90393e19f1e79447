package filtertest

import (
	"maps"
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// Carriers makes random frames with packets inside each other, one in three of them cut off.
func (g Grammar) Carriers(l headers.Link, n int) [][]byte {
	var frames [][]byte
	for range n {
		p := g.leaf()
		for range 1 + g.IntN(4) {
			p = g.wrap(p)
		}
		frames = append(frames, Frame(Eth(2, 1), BE(p.typ), p.data))
	}
	frames = behind(l, frames)
	for i, f := range frames {
		switch {
		case g.IntN(3) == 0:
			frames[i] = f[:g.IntN(len(f)+1)]
		case g.IntN(8) == 0 && len(f) > 14: // one byte of a header has another value
			frames[i] = slices.Clone(f)
			frames[i][14+g.IntN(len(f)-14)] = byte(g.IntN(256))
		}
	}
	return frames
}

// A layer is a packet without its link header.
type layer struct {
	typ  uint16 // its EtherType, or the length of an 802.2 frame
	data []byte
}

func (l layer) frame(g Grammar) []byte {
	return Frame(Eth(byte(1+g.IntN(2)), byte(1+g.IntN(2))), BE(l.typ), l.data)
}

func (g Grammar) leaf() layer {
	payload := PortHeader([]uint16{22, 80, 443}[g.IntN(3)], []uint16{53, 80, 4789}[g.IntN(3)], 2)
	switch g.IntN(4) {
	case 0:
		return layer{cbpf.EtherIP, IPv4Header(6, g.ipv4(), g.ipv4(), 0, 4*g.IntN(2), payload)}
	case 1:
		return layer{cbpf.EtherIP6, IPv6Header([]byte{6, 17}[g.IntN(2)], g.ipv6(), g.ipv6(), payload)}
	}
	all := networkLayers()
	return all[slices.Sorted(maps.Keys(all))[g.IntN(len(all))]]
}

// wrap puts a header around a packet that can carry it.
func (g Grammar) wrap(p layer) layer {
	isIP := p.typ == cbpf.EtherIP || p.typ == cbpf.EtherIP6
	switch n := g.IntN(10); {
	case n == 0:
		return layer{cbpf.Ether8021Q, Frame(BE(uint16(g.IntN(10))), BE(p.typ), p.data)}
	case n == 1:
		return layer{cbpf.Ether8021AD, Frame(BE(5), BE(cbpf.Ether8021Q), BE(7), BE(p.typ), p.data)}
	case n == 2:
		labels := slices.Repeat([]byte{0, 1, 0x10, 64}, g.IntN(5))
		if isIP {
			labels = append(labels, 0, 6, 0x41, 64)
		} else { // a pseudowire, with a control word
			labels, p.data = append(labels, 0, 0x0c, 0x81, 64, 0, 0, 0, 0), p.frame(g)
		}
		return layer{[]uint16{cbpf.EtherMPLS, cbpf.EtherMPLSUp}[g.IntN(2)], append(labels, p.data...)}
	case n == 3:
		if typ, ok := map[uint16]uint16{cbpf.EtherIP: 0x21, cbpf.EtherIP6: 0x57, cbpf.EtherMPLS: 0x281}[p.typ]; ok {
			return layer{cbpf.EtherPPPoES, Frame([]byte{0x11, 0, 0, byte(g.IntN(3))}, BE(uint16(len(p.data)+2)), BE(typ), p.data)}
		}
	}
	protocol, payload := g.inIP(p)
	if g.IntN(2) == 0 {
		return layer{cbpf.EtherIP, IPv4Header(protocol, g.ipv4(), g.ipv4(), uint16([]int{0, 0, 0x2000, 5}[g.IntN(4)]), 4*g.IntN(3), payload)}
	}
	for range g.IntN(6) * g.IntN(2) {
		next := []byte{0, 43, 60, 44}[g.IntN(4)]
		length := g.IntN(3)
		if next == 44 {
			length = 0
		}
		header := append([]byte{protocol, byte(length), 1, byte(4 + 8*length), 0, 0, 0, 0}, make([]byte, 8*length)...) // padding
		switch next {
		case 43:
			header[2], header[3] = 253, 0 // no segments are left
		case 44:
			header[2], header[3] = 0, byte(g.IntN(2)*g.IntN(2)*8)
		}
		protocol, payload = next, append(header, payload...)
	}
	return layer{cbpf.EtherIP6, IPv6Header(protocol, g.ipv6(), g.ipv6(), payload)}
}

// inIP puts a packet into the header of a protocol above IP.
func (g Grammar) inIP(p layer) (protocol byte, payload []byte) {
	isIP := p.typ == cbpf.EtherIP || p.typ == cbpf.EtherIP6
	switch n := g.IntN(8); {
	case n == 0 && p.typ == cbpf.EtherIP:
		return 4, p.data
	case n == 0 && p.typ == cbpf.EtherIP6:
		return 41, p.data
	case n == 0 && p.typ == cbpf.EtherMPLS:
		return 137, p.data
	case n == 1:
		return 143, p.frame(g)
	case n <= 3:
		return 47, g.gre(p)
	case n == 4 && isIP:
		return 17, g.udp(2152, g.gtp(p.data))
	case n == 5 && p.typ == cbpf.EtherMPLS:
		return 17, g.udp(6635, p.data)
	case n == 6:
		options := 4 * g.IntN(3)
		typ := p.typ
		if g.IntN(2) == 0 {
			typ, p.data = cbpf.EtherTEB, p.frame(g)
		}
		return 17, g.udp(6081, Frame([]byte{byte(options / 4), 0}, BE(typ), []byte{0, 0, 5, 0}, make([]byte, options), p.data))
	}
	switch next := map[uint16]byte{cbpf.EtherIP: 1, cbpf.EtherIP6: 2, cbpf.EtherMPLS: 5}[p.typ]; {
	case g.IntN(4) > 0:
		return 17, g.udp([]uint16{4789, 4789, 8472, 5000}[g.IntN(4)], Frame([]byte{8, 0, 0, 0, 0, 0, byte(g.IntN(7)), 0}, p.frame(g)))
	case next > 0:
		return 17, g.udp(4790, Frame([]byte{0x0c, 0, 0, next, 0, 0, 5, 0}, p.data))
	default:
		return 17, g.udp(4790, Frame([]byte{0x0c, 0, 0, 3, 0, 0, 5, 0}, p.frame(g)))
	}
}

func (g Grammar) udp(port uint16, payload []byte) []byte {
	return Frame(BE(uint16(50000+g.IntN(3))), BE(port), BE(uint16(8+len(payload))), []byte{0, 0}, payload)
}

func (g Grammar) gre(p layer) []byte {
	flags := byte(g.IntN(16)) << 4 &^ 0x40
	typ := p.typ
	switch g.IntN(4) {
	case 0:
		typ, p.data = cbpf.EtherTEB, p.frame(g)
	case 1:
		typ, p.data = cbpf.EtherERSPAN, p.frame(g)
		if flags&0x10 != 0 {
			p.data = append([]byte{0x10, 0, 0, 0, 0, 0, 0, 0}, p.data...)
		}
	case 2:
		typ = cbpf.EtherERSPAN3
		more := byte(g.IntN(2))
		p.data = Frame([]byte{0x20}, make([]byte, 9), []byte{byte(g.IntN(9)) / 8 * 0x1c, more}, make([]byte, 8*more), p.frame(g))
	}
	options := 0
	for bit := byte(0x10); bit != 0; bit <<= 1 {
		if flags&bit != 0 {
			options += 4
		}
	}
	return Frame([]byte{flags, 0}, BE(typ), make([]byte, options), p.data)
}

func (g Grammar) gtp(data []byte) []byte {
	switch n := g.IntN(4); n {
	case 0:
		return Frame([]byte{0x30, 255}, BE(uint16(len(data))), BE(0), BE(7), data)
	case 1:
		return Frame([]byte{0x32, 255}, BE(uint16(4+len(data))), BE(0), BE(7), []byte{0, 1, 0, 0}, data)
	default:
		header := Frame([]byte{0, 1, 0, 0x85})
		for left := g.IntN(4); left > 0; left-- {
			header = Frame(header, []byte{1, 0, 9, 0x85})
		}
		data = Frame(header, []byte{2, 0, 9, 0, 0, 0, 0, 0}, data)
		return Frame([]byte{0x34, 255}, BE(uint16(len(data))), BE(0), BE(7), data)
	}
}
