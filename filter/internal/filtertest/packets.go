// Package filtertest is shared by the tests of the compiler's stages and of its translator:
// expressions, packets, and an interpreter of expressions as the reference for the results.
package filtertest

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/internal/headers"
)

// Frame puts headers and payload together.
func Frame(parts ...[]byte) []byte { return slices.Concat(parts...) }

// BE returns a number in network byte order.
func BE(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// Eth returns the two addresses of an Ethernet header. A type or a tag must follow.
func Eth(dst, src byte) []byte { return []byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src} }

var broadcastEth = unhex("ffffffffffff020000000001")

// VLANTag returns a VLAN tag with its type.
func VLANTag(tpid, tci uint16) []byte { return append(BE(tpid), BE(tci)...) }

// IPv4Header returns an IPv4 header with a fragment field, some bytes of options, and the payload.
func IPv4Header(proto byte, src, dst string, frag uint16, options int, payload []byte) []byte {
	h := []byte{byte(0x45 + options/4), 0}
	h = append(h, BE(uint16(20+options+len(payload)))...)
	h = append(h, 0, 1)
	h = append(h, BE(frag)...)
	h = append(h, 64, proto, 0, 0)
	h = append(h, netip.MustParseAddr(src).AsSlice()...)
	h = append(h, netip.MustParseAddr(dst).AsSlice()...)
	for range options {
		h = append(h, 1)
	}
	return append(h, payload...)
}

// IPv6Header returns an IPv6 header with its payload.
func IPv6Header(next byte, src, dst string, payload []byte) []byte {
	h := append([]byte{0x60, 0, 0, 0}, BE(uint16(len(payload)))...)
	h = append(h, next, 64)
	h = append(h, netip.MustParseAddr(src).AsSlice()...)
	h = append(h, netip.MustParseAddr(dst).AsSlice()...)
	return append(h, payload...)
}

// PortHeader returns the start of a TCP, UDP or SCTP header. flags is at the position of TCP's
// flags.
func PortHeader(src, dst uint16, flags byte) []byte {
	return slices.Concat(BE(src), BE(dst), []byte{0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 4, 0, 0, 0, 0, 0}, []byte("payload!"))
}

func arpPacket(src, dst string) []byte {
	return slices.Concat(unhex("0001080006040001020000000001"), netip.MustParseAddr(src).AsSlice(), unhex("020000000002"),
		netip.MustParseAddr(dst).AsSlice())
}

// networkLayers returns packets above the link layer, by names for a fixed order.
func networkLayers() map[string]layer {
	v4 := func(proto byte, frag uint16, options int, payload []byte) layer {
		return layer{cbpf.EtherIP, IPv4Header(proto, "1.2.3.4", "10.0.0.1", frag, options, payload)}
	}
	v6 := func(next byte, payload []byte) layer {
		return layer{cbpf.EtherIP6, IPv6Header(next, "2001:db8::1", "fe80::1", payload)}
	}
	inner := Frame(Eth(9, 8), BE(cbpf.EtherIP), IPv4Header(cbpf.IPTCP, "10.0.0.2", "192.168.1.1", 0, 0, PortHeader(1234, 22, 2)))
	geneve := func(typ uint16, options byte, payload []byte) []byte {
		return slices.Concat(BE(40000), BE(6081), BE(0), BE(0), []byte{options / 4, 0}, BE(typ), []byte{0, 0, 5, 0}, make([]byte, options), payload)
	}
	vxlan := func(flags byte, payload []byte) []byte {
		return slices.Concat(BE(40000), BE(4789), BE(0), BE(0), []byte{flags, 0, 0, 0, 0, 0, 5, 0}, payload)
	}
	return map[string]layer{
		"tcp":        v4(cbpf.IPTCP, 0, 0, PortHeader(40000, 443, 2)),
		"tcp80":      v4(cbpf.IPTCP, 0x4000, 0, PortHeader(80, 1500, 0x12)),
		"tcpoptions": v4(cbpf.IPTCP, 0, 12, PortHeader(22, 53, 0x18)),
		"udp53":      v4(cbpf.IPUDP, 0, 0, PortHeader(53, 53, 0)),
		"fragment":   v4(cbpf.IPUDP, 0x2005, 0, PortHeader(80, 80, 0)),
		"first":      v4(cbpf.IPTCP, 0x2000, 0, PortHeader(80, 80, 0x10)),
		"sctp":       v4(cbpf.IPSCTP, 0, 0, PortHeader(80, 2000, 0)),
		"icmp":       v4(cbpf.IPICMP, 0, 0, unhex("0800f7ff00000000aabbccdd")),
		"igmp":       {cbpf.EtherIP, IPv4Header(cbpf.IPIGMP, "10.0.0.2", "224.0.0.22", 0, 4, unhex("1164ee9b00000000"))},
		"esp":        v4(cbpf.IPESP, 0, 0, unhex("0000000100000002")),
		"gre":        v4(47, 0, 0, unhex("00000800")),
		"broadcast":  {cbpf.EtherIP, IPv4Header(cbpf.IPUDP, "0.0.0.0", "255.255.255.255", 0, 0, PortHeader(68, 67, 0))},
		"badihl":     {cbpf.EtherIP, append([]byte{0x4f}, IPv4Header(cbpf.IPTCP, "10.0.0.1", "10.0.0.2", 0, 0, PortHeader(80, 443, 2))[1:]...)},
		"tcp6":       v6(cbpf.IPTCP, PortHeader(443, 50000, 0x10)),
		"udp6":       v6(cbpf.IPUDP, PortHeader(1000, 53, 0)),
		"icmp6":      v6(cbpf.IPICMP6, unhex("8000000000010001")),
		"fragment6":  v6(cbpf.IPFragment, slices.Concat([]byte{cbpf.IPUDP, 0, 0, 1, 0, 0, 0, 9}, PortHeader(53, 80, 0))),
		"hop6":       v6(0, slices.Concat([]byte{cbpf.IPICMP6, 0, 5, 2, 0, 0, 1, 0}, unhex("8f00000000000001"))),
		"chain6": v6(0, slices.Concat([]byte{60, 1}, make([]byte, 14), []byte{43, 0, 0, 0, 0, 0, 0, 0}, []byte{44, 0, 0, 0, 0, 0, 0, 0},
			[]byte{51, 0, 0, 1, 0, 0, 0, 9}, []byte{cbpf.IPUDP, 4}, make([]byte, 22), PortHeader(53, 80, 0))),
		"chain":      v4(51, 0, 8, slices.Concat([]byte{51, 1}, make([]byte, 10), []byte{cbpf.IPTCP, 4}, make([]byte, 22), PortHeader(53, 80, 0))),
		"multicast6": {cbpf.EtherIP6, IPv6Header(cbpf.IPUDP, "2001:db8::2", "ff02::1", PortHeader(546, 547, 0))},
		"arp":        {cbpf.EtherARP, arpPacket("1.2.3.4", "10.0.0.1")},
		"rarp":       {cbpf.EtherRARP, arpPacket("10.0.0.2", "192.168.1.1")},
		"mpls":       {cbpf.EtherMPLS, slices.Concat(unhex("00010140"), IPv4Header(cbpf.IPTCP, "1.2.3.4", "10.0.0.1", 0, 0, PortHeader(80, 443, 2)))},
		"mpls2":      {cbpf.EtherMPLS, slices.Concat(unhex("186a0040000101ff"), IPv6Header(cbpf.IPUDP, "2001:db8::1", "fe80::1", PortHeader(53, 443, 2)))},
		"mplsvxlan":  {cbpf.EtherMPLS, slices.Concat(unhex("00010140"), v4(cbpf.IPUDP, 0, 0, vxlan(8, inner)).data)},
		"pppoed":     {cbpf.EtherPPPoED, unhex("11090000000401010000")},
		"pppoes":     {cbpf.EtherPPPoES, slices.Concat(unhex("1100000100320021"), IPv4Header(cbpf.IPUDP, "1.2.3.4", "10.0.0.1", 0, 0, PortHeader(53, 80, 0)))},
		"pppoes6":    {cbpf.EtherPPPoES, slices.Concat(unhex("1100000700320057"), IPv6Header(cbpf.IPTCP, "2001:db8::1", "fe80::1", PortHeader(22, 80, 0)))},
		"geneve":     v4(cbpf.IPUDP, 0, 0, geneve(cbpf.EtherTEB, 8, inner)),
		"geneve6":    v6(cbpf.IPUDP, geneve(cbpf.EtherTEB, 0, inner)),
		"geneveip":   v4(cbpf.IPUDP, 0, 4, geneve(cbpf.EtherIP, 4, inner[14:])),
		"vxlan":      v4(cbpf.IPUDP, 0, 0, vxlan(8, inner)),
		"vxlan4":     v4(cbpf.IPUDP, 0, 4, vxlan(8, Frame(Eth(9, 8), VLANTag(cbpf.Ether8021Q, 7), inner[12:]))),
		"vxlan6":     v6(cbpf.IPUDP, vxlan(8, inner)),
		"vxlangpe":   v4(cbpf.IPUDP, 0, 0, vxlan(0x0c, inner)),
		"decnet":     {cbpf.EtherDECNET, unhex("1a00" + "8106000000aa00040005040000aa000400042800000001")},
		"decnets":    {cbpf.EtherDECNET, unhex("1000020504032800")},
		"aarp":       {cbpf.EtherAARP, unhex("0001809b06040001")},
		"stp":        {0x0026, unhex("42420300000000008000020000000001")},
		"isis":       {0x0040, unhex("fefe03831b01001801000000")},
		"isis2":      {0x0040, unhex("fefe03831b01001101000000")},
		"clnp":       {0x0040, unhex("fefe0381000000000000")},
		"snapatalk":  {0x0040, unhex("aaaa03080007809b00000000")},
		"snapipx":    {0x0040, unhex("aaaa030000008137ffff0022")},
		"ipxraw":     {0x0022, unhex("ffff0022000100000000ffffffffffff0453000000000200000000010453")},
		"ipxllc":     {0x0025, unhex("e0e003ffff0022000100000000ffffffffffff0453000000000200000000010453")},
		"netbeui":    {0x0030, unhex("f0f003112233")},
		"llcs":       {0x0030, unhex("06060500")},
		"llcxid":     {0x0030, unhex("0001af8101")},
		"loopback":   {cbpf.EtherLoopback, unhex("0000010000")},
	}
}

// Packets returns frames of all kinds, without VLAN tags and with them, in a fixed order.
func Packets() [][]byte {
	layers := networkLayers()
	var out [][]byte
	for _, n := range slices.Sorted(maps.Keys(layers)) {
		l := layers[n]
		out = append(out,
			Frame(Eth(2, 1), BE(l.typ), l.data),
			Frame(Eth(1, 2), VLANTag(cbpf.Ether8021Q, 0x6005), BE(l.typ), l.data),
			Frame(broadcastEth, VLANTag(cbpf.Ether8021AD, 100), VLANTag(cbpf.Ether8021Q, 7), BE(l.typ), l.data))
	}
	return append(out, Frame(Eth(1, 1), VLANTag(cbpf.EtherQinQ, 5), BE(cbpf.EtherARP), layers["arp"].data), make([]byte, 60), nil)
}

// PacketsOf returns the frames of Packets without VLAN tags, behind the first header of a link
// type.
func PacketsOf(l headers.Link) [][]byte {
	if l == headers.Ethernet {
		return Packets()
	}
	return behind(l, Packets())
}

// behind puts the first header of a link type in place of Ethernet's, if it is another one.
func behind(l headers.Link, frames [][]byte) (out [][]byte) {
	if l == headers.Ethernet {
		return frames
	}
	for _, f := range frames {
		if len(f) < 14 || f[12] == 0x81 || f[12] == 0x88 && f[13] == 0xa8 || f[12] == 0x91 {
			continue
		}
		typ, data := f[12:14], f[14:]
		if typ[0] < 6 { // a length
			typ = BE(4)
		}
		switch direction := f[5]; l { // 1 or 2 in Packets; 4 is sent
		case headers.Cooked:
			data = Frame([]byte{0, 2 * direction, 0, 1, 0, 6}, f[6:12], make([]byte, 2), typ, data)
		case headers.Cooked2:
			data = Frame(typ, make([]byte, 2), []byte{0, 0, 0, direction, 0, 1, 2 * direction, 6}, f[6:12], make([]byte, 2), data)
		case headers.Loopback:
			family := []byte{0, 0, 0, 7} // ISO's
			switch binary.BigEndian.Uint16(typ) {
			case cbpf.EtherIP:
				family[3] = 2
			case cbpf.EtherIP6:
				family[3] = []byte{24, 28, 30}[len(out)%3]
			}
			out = append(out, Frame(family, data)) // LOOP
			slices.Reverse(family)
			data = Frame(family, data) // NULL of most hosts
		}
		out = append(out, data)
	}
	return append(out, nil)
}

// Truncations returns the frames, and the frames cut at every step-th length.
func Truncations(frames [][]byte, step int) [][]byte {
	var out [][]byte
	for i, f := range frames {
		out = append(out, f)
		for n := i % step; n < len(f); n += step {
			out = append(out, f[:n])
		}
	}
	return out
}
