package filtertest

import (
	"encoding/binary"
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// primitive evaluates a test for addresses, ports or a protocol. Like the whole walk, it is the
// reference for compiled programs: see Meaning. It reads the link header by w.link and the network
// header, whose position is w.place.body, by w.net.
func (w *walk) primitive(p *syntax.Primitive) bool {
	switch {
	case p.Qual.Type == syntax.AddrPort, p.Qual.Type == syntax.AddrPortrange:
		return w.ports(p, 0x86dd) || w.ports(p, 0x800)
	case p.At.Kind == syntax.KindSet:
		return w.addressIn(p)
	case p.Qual.Type == syntax.AddrProto:
		return w.proto(p.Number, p.Qual.Proto)
	case p.Qual.Type == syntax.AddrProtochain:
		return p.Qual.Proto != syntax.ProtoIP6 && w.chain(p.Number, 0x800) || p.Qual.Proto != syntax.ProtoIP && w.chain(p.Number, 0x86dd)
	case p.At.Kind == syntax.KindEther:
		return !w.place.noEthernet && directed(p.Qual.Dir, func(source bool) bool {
			if source {
				return w.mac(p.Ether[:], 6)
			}
			return w.mac(p.Ether[:], 0)
		})
	case len(p.Hosts) > 0:
		for _, a := range p.Hosts {
			if a.Is4() && w.ipv4(binary.BigEndian.Uint32(a.AsSlice()), ^uint32(0), p.Qual) || a.Is6() && w.ipv6(a.As16(), p) {
				return true
			}
		}
		return false
	case p.Qual.Proto == syntax.ProtoDECNET:
		return w.decnet(p.Addr, p.Qual.Dir)
	}
	return w.ipv4(p.Addr, p.Netmask, p.Qual)
}

// directed tests the source, the destination, either or both.
func directed(d syntax.Direction, test func(source bool) bool) bool {
	switch d {
	case syntax.DirSrc:
		return test(true)
	case syntax.DirDst:
		return test(false)
	case syntax.DirAnd:
		return test(true) && test(false)
	}
	return test(true) || test(false)
}

// mac tests for a MAC address in the link header. It reads the end of the address first, as
// compiled programs do: if the packet ends before, the walk ends, even if the first bytes differ.
func (w *walk) mac(address []byte, at uint64) bool {
	return w.link(at+2, 4) == binary.BigEndian.Uint32(address[2:]) && w.link(at, 2) == uint32(binary.BigEndian.Uint16(address))
}

// ipv4 tests for an IPv4 address in the headers of IPv4, ARP and RARP, or in one of them. Behind
// MPLS labels there is no ARP, because no EtherType there tells it from IP.
func (w *walk) ipv4(address, mask uint32, q syntax.Qualifier) bool {
	in := func(etherType uint32, src, dst uint64) bool {
		return directed(q.Dir, func(source bool) bool {
			at := dst
			if source {
				at = src
			}
			return w.linkIs(etherType) && w.net(at, 4)&mask == address
		})
	}
	switch q.Proto {
	case syntax.ProtoIP:
		return in(0x800, 12, 16)
	case syntax.ProtoARP:
		return in(0x806, 14, 24)
	case syntax.ProtoRARP:
		return in(0x8035, 14, 24)
	}
	return in(0x800, 12, 16) || w.place.labels == 0 && (in(0x806, 14, 24) || in(0x8035, 14, 24))
}

// ipv6 tests for the first p.Prefix bits of an IPv6 address.
func (w *walk) ipv6(address [16]byte, p *syntax.Primitive) bool {
	return directed(p.Qual.Dir, func(source bool) bool {
		at := uint64(24)
		if source {
			at = 8
		}
		if !w.linkIs(0x86dd) {
			return false
		}
		for word := range 4 {
			mask := ^uint32(0) << (32 - min(max(p.Prefix-32*word, 0), 32))
			if w.net(at+uint64(4*word), 4)&mask != binary.BigEndian.Uint32(address[4*word:]) {
				return false
			}
		}
		return true
	})
}

// decnet tests for an address of DECnet Phase IV, which is little-endian. A header begins with two
// bytes of length, a byte 0x81 of padding if there is any, and flags, whose low bits are 2 in the
// short form of the header and 6 in the long form.
func (w *walk) decnet(address uint32, d syntax.Direction) bool {
	little := address>>8&0xff | address<<8&0xff00
	return directed(d, func(source bool) bool {
		short, long := uint64(1), uint64(7) // offsets from the flags to the address
		if source {
			short, long = 3, 15
		}
		return w.linkIs(0x6003) &&
			(w.net(2, 1)&7 == 2 && w.net(2+short, 2) == little || // short
				w.net(2, 2)&0xff07 == 0x8102 && w.net(3+short, 2) == little || // short, padded
				w.net(2, 1)&7 == 6 && w.net(2+long, 2) == little || // long
				w.net(2, 2)&0xff07 == 0x8106 && w.net(3+long, 2) == little) // long, padded
	})
}

// firstFragment tests for an IPv4 packet that is whole or a first fragment: later ones have no
// ports.
func (w *walk) firstFragment() bool { return w.net(6, 2)&0x1fff == 0 }

// ports tests for ports over a version of IP. Those in the first fragment of an IPv6 packet count
// only with the option Fragments.
func (w *walk) ports(p *syntax.Primitive, etherType uint32) bool {
	transports := []uint32{132, 6, 17}
	if p.Transport != syntax.ProtoNone {
		transports = []uint32{map[syntax.Proto]uint32{syntax.ProtoSCTP: 132, syntax.ProtoTCP: 6, syntax.ProtoUDP: 17}[p.Transport]}
	}
	if !w.linkIs(etherType) {
		return false
	}
	return slices.ContainsFunc(transports, func(transport uint32) bool {
		var at uint64 // the position of the transport header
		if etherType == 0x800 {
			if w.net(9, 1) != transport || !w.firstFragment() {
				return false
			}
			at = w.ipv4Body()
		} else {
			switch w.net(6, 1) {
			case transport:
				at = w.place.body + 40
			case 44: // a fragment header
				if !w.Fragments || w.net(40, 1) != transport || w.net(42, 2)&0xfff8 != 0 {
					return false
				}
				at = w.place.body + 48
			default:
				return false
			}
		}
		return directed(p.Qual.Dir, func(source bool) bool {
			offset := uint64(2)
			if source {
				offset = 0
			}
			port := w.number(at+offset, 2)
			if p.At.Kind == syntax.KindSet {
				return slices.Contains(w.Sets[p.At.SetName()].Ports, uint16(port))
			}
			return p.Ports[0] <= port && port <= p.Ports[1]
		})
	})
}
