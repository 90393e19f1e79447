package anonymize

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// A generator makes packets of all kinds, with random addresses that it remembers.
type generator struct {
	rng       *rand.Rand
	addresses [][]byte // of every packet since the last call of frame
	depth     int      // of tunnels
}

type stack = []gopacket.SerializableLayer

// frame returns an Ethernet frame, and the addresses in it.
func (g *generator) frame() (frame []byte, addresses [][]byte) {
	g.addresses, g.depth = nil, 0
	frame = serialize(g.ethernet())
	return frame, g.addresses
}

func serialize(s stack) []byte {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, s...); err != nil {
		panic(err)
	}
	return slices.Clone(b.Bytes())
}

func (g *generator) address(size int) []byte {
	a := randomBytes(g.rng, size)
	g.addresses = append(g.addresses, a)
	return a
}

func (g *generator) ip4() net.IP           { return g.address(4) }
func (g *generator) ip6() net.IP           { return g.address(16) }
func (g *generator) mac() net.HardwareAddr { return g.address(6) }
func (g *generator) one(of int) bool       { return g.rng.IntN(of) == 0 }

// data is a payload with all addresses so far, as they are and as text, as DNS and HTTP have them.
func (g *generator) data() gopacket.Payload {
	var b []byte
	for _, a := range g.addresses {
		b = append(b, a...)
		if len(a) != 6 {
			b = append(b, net.IP(a).String()...)
		}
	}
	return append(b, randomBytes(g.rng, g.rng.IntN(9))...)
}

func (g *generator) ethernet() stack {
	e := &layers.Ethernet{SrcMAC: g.mac(), DstMAC: g.mac()}
	next, rest := g.network()
	s := stack{e}
	typ := &e.EthernetType
	for g.one(3) && len(s) < 4 {
		*typ = layers.EthernetTypeDot1Q
		if g.one(2) {
			*typ = layers.EthernetTypeQinQ
		}
		tag := &layers.Dot1Q{VLANIdentifier: uint16(g.rng.IntN(4096))}
		s, typ = append(s, tag), &tag.Type
	}
	if (next == layers.EthernetTypeIPv4 || next == layers.EthernetTypeIPv6) && g.depth == 0 && g.one(6) {
		*typ = layers.EthernetTypeMPLSUnicast
		return slices.Concat(s, stack{&layers.MPLS{Label: 5}, &layers.MPLS{Label: 6, StackBottom: true}}, rest)
	}
	*typ = next
	return append(s, rest...)
}

// network generates the payload of an Ethernet header.
func (g *generator) network() (layers.EthernetType, stack) {
	switch g.rng.IntN(10) {
	case 0:
		return layers.EthernetTypeARP, stack{&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
			SourceHwAddress: g.mac(), SourceProtAddress: g.ip4(), DstHwAddress: g.mac(), DstProtAddress: g.ip4(),
		}, g.data()}
	case 1:
		return layers.EthernetTypeLinkLayerDiscovery, stack{g.data()}
	case 2, 3, 4, 5:
		return layers.EthernetTypeIPv4, g.ipv4()
	}
	return layers.EthernetTypeIPv6, g.ipv6()
}

func (g *generator) ipv4() stack {
	ip := &layers.IPv4{Version: 4, TTL: 9, SrcIP: g.ip4(), DstIP: g.ip4()}
	if g.one(4) { // record route
		route := append([]byte{8}, g.ip4()...)
		ip.Options = []layers.IPv4Option{{OptionType: 7, OptionLength: 7, OptionData: route}, {OptionType: 1}}
	}
	if g.one(8) {
		ip.FragOffset, ip.Protocol = 7, layers.IPProtocolUDP
		return stack{ip, g.data()}
	}
	var rest stack
	switch g.rng.IntN(12) {
	case 0, 1:
		ip.Protocol, rest = layers.IPProtocolICMPv4, g.icmp()
	case 2:
		ip.Protocol = layers.IPProtocolIGMP
		group := g.ip4()
		b := append([]byte{0x16, 0, 0, 0}, group...)
		binary.BigEndian.PutUint16(b[2:], ^sumOf(b))
		rest = stack{gopacket.Payload(b)}
	default:
		ip.Protocol, rest = g.transport(ip)
	}
	return append(stack{ip}, rest...)
}

func (g *generator) ipv6() stack {
	ip := &layers.IPv6{Version: 6, HopLimit: 9, SrcIP: g.ip6(), DstIP: g.ip6()}
	if g.one(8) {
		ip.NextHeader = layers.IPProtocolIPv6Fragment
		b := append([]byte{17, 0, 0, 64, 1, 2, 3, 4}, g.data()...)
		return stack{ip, gopacket.Payload(b)}
	}
	if g.one(8) { // segments
		ip.NextHeader = layers.IPProtocolIPv6Routing
		b := append([]byte{59, 2, 4, 0, 0, 0, 0, 0}, g.ip6()...)
		return stack{ip, gopacket.Payload(append(b, g.data()...))}
	}
	if g.one(8) { // a home address
		ip.NextHeader = layers.IPProtocolIPv6Destination
		b := append([]byte{59, 2, 1, 2, 0, 0, 201, 16}, g.ip6()...)
		return stack{ip, gopacket.Payload(append(b, g.data()...))}
	}
	var rest stack
	if g.one(3) {
		ip.NextHeader, rest = layers.IPProtocolICMPv6, g.icmpv6(ip)
	} else {
		ip.NextHeader, rest = g.transport(ip)
	}
	return append(stack{ip}, rest...)
}

// transport generates the payload of an IP header.
func (g *generator) transport(ip gopacket.NetworkLayer) (layers.IPProtocol, stack) {
	g.depth++
	tunnels := g.depth < 4
	udp := func(port layers.UDPPort, rest ...gopacket.SerializableLayer) (layers.IPProtocol, stack) {
		u := &layers.UDP{SrcPort: 40000, DstPort: port}
		u.SetNetworkLayerForChecksum(ip)
		return layers.IPProtocolUDP, append(stack{u}, rest...)
	}
	switch n := g.rng.IntN(14); {
	case n == 0 && tunnels:
		return udp(4789, append(stack{&layers.VXLAN{ValidIDFlag: true, VNI: 77}}, g.ethernet()...)...)
	case n == 1 && tunnels:
		return udp(6081, append(stack{&layers.Geneve{Protocol: layers.EthernetTypeTransparentEthernetBridging, VNI: 77}}, g.ethernet()...)...)
	case n == 2 && tunnels:
		return layers.IPProtocolIPv4, g.ipv4()
	case n == 3 && tunnels:
		return layers.IPProtocolIPv6, g.ipv6()
	case n == 4 && tunnels:
		return layers.IPProtocolGRE, append(stack{&layers.GRE{Protocol: layers.EthernetTypeIPv4, ChecksumPresent: true, KeyPresent: g.one(2)}}, g.ipv4()...)
	case n == 5 && tunnels:
		return layers.IPProtocolGRE, append(stack{&layers.GRE{Protocol: layers.EthernetTypeTransparentEthernetBridging}}, g.ethernet()...)
	case n == 6:
		return udp(53, g.data())
	case n == 7:
		return udp(4789, g.data()) // no VXLAN
	case n == 8:
		return layers.IPProtocolSCTP, stack{gopacket.Payload(slices.Concat(make([]byte, 12), []byte(g.data())))}
	case n == 9:
		return layers.IPProtocolOSPF, stack{g.data()}
	}
	tcp := &layers.TCP{SrcPort: 80, DstPort: 40000, Seq: 5, ACK: true, Window: 9}
	tcp.SetNetworkLayerForChecksum(ip)
	if g.one(2) { // as load balancers send to the client, and MPTCP for another address
		tcp.Options = []layers.TCPOption{
			{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{5, 180}},
			{OptionType: 254, OptionLength: 8, OptionData: append([]byte{0, 80}, g.ip4()...)},
			{OptionType: 30, OptionLength: 8, OptionData: append([]byte{0x34, 1}, g.ip4()...)},
		}
	}
	return layers.IPProtocolTCP, stack{tcp, g.data()}
}

func (g *generator) icmp() stack {
	switch g.rng.IntN(3) {
	case 0:
		return stack{&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 7, Seq: 8}, g.data()}
	case 1:
		gateway := binary.BigEndian.Uint32(g.ip4())
		return stack{&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(5, 1), Id: uint16(gateway >> 16), Seq: uint16(gateway)}, g.quoted(g.ipv4())}
	}
	return stack{&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 4), Seq: 1400}, g.quoted(g.ipv4())}
}

// quoted is a packet as an ICMP error has it, possibly cut.
func (g *generator) quoted(s stack) gopacket.Payload {
	b := serialize(s)
	if g.one(2) {
		b = b[:min(len(b), 28+g.rng.IntN(80))]
	}
	return b
}

func (g *generator) icmpv6(ip *layers.IPv6) stack {
	icmp := func(typ uint8, rest ...gopacket.SerializableLayer) stack {
		l := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, 0)}
		l.SetNetworkLayerForChecksum(ip)
		return append(stack{l}, rest...)
	}
	link := layers.ICMPv6Options{{Type: layers.ICMPv6OptSourceAddress, Data: g.mac()}}
	switch g.rng.IntN(7) {
	case 0:
		return icmp(128, &layers.ICMPv6Echo{Identifier: 4, SeqNumber: 5}, g.data())
	case 1:
		return icmp(135, &layers.ICMPv6NeighborSolicitation{TargetAddress: g.ip6(), Options: link})
	case 2:
		return icmp(136, &layers.ICMPv6NeighborAdvertisement{TargetAddress: g.ip6(), Options: link})
	case 3:
		prefix := append([]byte{64, 0xc0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0}, g.ip6()...)
		servers := append([]byte{0, 0, 0, 0, 1, 0}, g.ip6()...)
		return icmp(134, &layers.ICMPv6RouterAdvertisement{HopLimit: 64, Options: append(link,
			layers.ICMPv6Option{Type: layers.ICMPv6OptPrefixInfo, Data: prefix}, layers.ICMPv6Option{Type: 25, Data: servers})})
	case 4:
		quoted := append(make([]byte, 6), g.quoted(g.ipv6())...)
		for (len(quoted)+2)%8 != 0 {
			quoted = append(quoted, 0)
		}
		if len(quoted) > 2000 {
			quoted = quoted[:1998]
		}
		return icmp(137, &layers.ICMPv6Redirect{TargetAddress: g.ip6(), DestinationAddress: g.ip6(), Options: append(link,
			layers.ICMPv6Option{Type: layers.ICMPv6OptRedirectedHeader, Data: quoted})})
	case 5:
		return icmp(131, gopacket.Payload(append(make([]byte, 4), g.ip6()...)))
	}
	return icmp(1, gopacket.Payload(append(make([]byte, 4), g.quoted(g.ipv6())...)))
}

// kinds are the layers of a packet. Options that were damaged are overwritten, so that a failure to
// decode them is no difference.
func kinds(p gopacket.Packet) (names []string) {
	for _, l := range p.Layers() {
		if l.LayerType() != gopacket.LayerTypeDecodeFailure {
			names = append(names, fmt.Sprint(l.LayerType()))
		}
	}
	return names
}
