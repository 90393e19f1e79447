package dissect

import (
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// protocolPackets are of protocols that are not plain IP: tags, tunnels, protocols between
// switches, protocols above UDP, and invalid headers.
func protocolPackets(t testing.TB) []packet {
	t.Helper()
	var packets []packet
	add := func(name string, data []byte) { packets = append(packets, packet{name: name, data: data}) }
	eth := func(name string, typ layers.EthernetType, b ...byte) {
		add(name, frame(t, true, typ, gopacket.Payload(b)))
	}
	ip := func(name string, proto layers.IPProtocol, b ...byte) {
		add(name, frame(t, true, 0x0800, ip4(proto), gopacket.Payload(b)))
	}
	udp := frame(t, true, 0x0800, ip4(17), badUDP(8))[14:50] // without the frame's padding
	udp6 := frame(t, true, 0x86dd, ip6(17), badUDP(8))[14:]
	tag := func(tci uint16, next uint16, rest ...byte) []byte {
		return append([]byte{byte(tci >> 8), byte(tci), byte(next >> 8), byte(next)}, rest...)
	}
	eth("vlan", 0x8100, tag(5, 0x0800, udp...)...)
	eth("vlan drop eligible", 0x8100, tag(0xb005, 0x0800, udp...)...)
	eth("qinq", 0x88a8, tag(7, 0x8100, tag(5, 0x86dd, udp6...)...)...)
	eth("vlan unknown", 0x8100, tag(5, 0x1234, make([]byte, 50)...)...)
	eth("unknown ethertype", 0x1234, []byte("some bytes of a protocol that has no format")...)
	eth("mpls", 0x8847, append([]byte{0, 6, 0x40, 64, 0, 6, 0x51, 63}, udp...)...)
	eth("mpls explicit null", 0x8847, append([]byte{0, 0, 0x21, 63}, udp6...)...)
	eth("mpls unknown", 0x8847, 0, 6, 0x41, 64, 1, 2, 3, 4)
	eth("mpls endless", 0x8847, 0, 6, 0x40, 64)
	eth("pppoe", 0x8864, append([]byte{0x11, 0, 0, 9, 0, 38, 0, 0x21}, udp...)...)
	eth("pppoe lcp", 0x8864, 0x11, 0, 0, 9, 0, 6, 0xc0, 0x21, 9, 0, 0, 4)
	eth("pppoe discovery", 0x8863, 0x11, 9, 0, 0, 0, 16, 1, 1, 0, 0, 1, 3, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8)
	eth("loopback", 0x9000, 0, 0, 1, 0, 7, 0, 1, 2, 3, 4)

	stp := []byte{0x42, 0x42, 3, 0, 0, 0, 0, 0x3c, 0x80, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 4, 0x80, 1, 2, 0, 0, 0, 0, 2,
		0x80, 3, 1, 0, 20, 0, 2, 0, 15, 0, 0}
	eth("stp", 38, stp...)
	rapid := append([]byte(nil), stp...)
	rapid[5], rapid[6] = 2, 2
	eth("rapid stp", 39, rapid...)
	eth("snap", 0x30, append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 0}, udp...)...)
	eth("snap unknown", 0x30, append([]byte{0xaa, 0xaa, 3, 0x11, 0x22, 0x33, 0x44, 0x55}, udp...)...)
	eth("llc unknown", 0x26, make([]byte, 46)...)
	lacp := []byte{1, 1, 1, 20, 0x80, 0, 2, 0, 0, 0, 0, 1, 0, 9, 0x80, 1, 0, 3, 0x3d, 0, 0, 0,
		2, 20, 0x80, 0, 2, 0, 0, 0, 0, 2, 0, 8, 0x80, 2, 0, 4, 0x45, 0, 0, 0, 3, 16, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	eth("lacp", 0x8809, lacp...)
	eth("lacp unknown", 0x8809, 9, 1, 2, 3)
	lldp := []byte{2, 7, 4, 2, 0, 0, 0, 0, 1, 4, 5, 5, 'e', 't', 'h', '0', 6, 2, 0, 120, 8, 4, 'p', 'o', 'r', 't',
		10, 5, 's', 'w', 1, 't', 'c', 12, 3, 'a', 'b', 'c', 14, 4, 0, 0x14, 0, 4, 16, 12, 5, 1, 10, 0, 0, 1, 2, 0, 0, 0, 3, 0,
		0xfe, 5, 1, 2, 3, 4, 5, 0, 0}
	eth("lldp", 0x88cc, lldp...)

	ip("igmp query", 2, 0x11, 0, 0, 0, 0, 0, 0, 0)
	ip("igmp query v2", 2, 0x11, 50, 0, 0, 224, 1, 2, 3)
	ip("igmp query v3", 2, 0x11, 200, 0, 0, 224, 1, 2, 3, 2, 20, 0, 1, 10, 0, 0, 9)
	ip("igmp report v1", 2, 0x12, 0, 0, 0, 224, 1, 2, 3)
	ip("igmp report v2", 2, 0x16, 0, 0, 0, 224, 1, 2, 3)
	ip("igmp report v3", 2, 0x22, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 224, 1, 2, 3, 1, 0, 0, 1, 224, 1, 2, 4, 10, 0, 0, 9)
	ip("igmp leave", 2, 0x17, 0, 0, 0, 224, 1, 2, 3)
	ip("gre key", 47, append([]byte{0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 8}, udp...)...)
	ip("gre sum", 47, append([]byte{0x80, 0, 0x86, 0xdd, 1, 2, 0, 0}, udp6...)...)
	ip("gre teb", 47, append([]byte{0, 0, 0x65, 0x58}, frame(t, true, 0x0800, ip4(17), badUDP(8))...)...)
	ip("gre unknown", 47, 0, 0, 0x12, 0x34, 1, 2, 3)
	ip("pptp", 47, append([]byte{0x30, 0x81, 0x88, 0x0b, 0, 38, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0x21}, udp...)...)
	ip("ah", 51, append([]byte{17, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4}, udp[20:]...)...)
	ip("vrrp", 112, 0x21, 5, 100, 1, 0, 1, 0, 0, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0)
	ip("icmp in ip6", 58, 128, 0, 0, 0)

	ip("sctp init", 132, 0x9c, 0x40, 0xc3, 0x51, 0, 0, 0, 0, 1, 2, 3, 4, 1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 9)
	ip("sctp data", 132, 0x9c, 0x40, 0xc3, 0x51, 0, 0, 0, 7, 1, 2, 3, 4, 0, 3, 0, 19, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 18, 'a', 'b', 'c', 0)
	ip("sctp sack", 132, 0x9c, 0x40, 0xc3, 0x51, 0, 0, 0, 7, 1, 2, 3, 4, 3, 0, 0, 24, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 2, 0, 3, 0, 0, 0, 5,
		11, 0, 0, 4)
	ip("sctp bad chunk", 132, 0x9c, 0x40, 0xc3, 0x51, 0, 0, 0, 7, 1, 2, 3, 4, 3, 0, 0, 3)

	quoted := append([]byte{0, 0, 0, 0}, udp...)
	ip("icmp redirect", 1, append([]byte{5, 1, 0, 0, 10, 0, 0, 254}, quoted[4:]...)...)
	ip("icmp redirect tos", 1, append([]byte{5, 2, 0, 0, 10, 0, 0, 254}, quoted[4:]...)...)
	ip("icmp parameter", 1, append([]byte{12, 0, 0, 0, 20, 0, 0, 0}, quoted[4:]...)...)
	ip("icmp timestamp", 1, 14, 0, 0, 0, 0, 1, 0, 2, 0, 1, 0, 0, 0, 2, 0, 0, 4, 0, 0, 0)
	ip("icmp routers", 1, 9, 0, 0, 0, 1, 2, 7, 8, 10, 0, 0, 1, 0, 0, 0, 9)
	ip("icmp unknown", 1, 99, 3, 0, 0)
	labels := make([]byte, 128)
	copy(labels, udp)
	ip("icmp mpls", 1, append(append([]byte{11, 0, 0, 0, 0, 32, 0, 0}, labels...), 0x20, 0, 0xdf, 0xff, 0, 8, 1, 1, 0, 6, 0x51, 1)...)
	six := func(name string, b ...byte) { add(name, frame(t, true, 0x86dd, ip6(58), gopacket.Payload(b))) }
	for code := range byte(7) {
		six("icmp6 unreachable", append([]byte{1, code, 0, 0, 0, 0, 0, 0}, udp6...)...)
	}
	six("icmp6 exceeded", append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, udp6...)...)
	six("icmp6 parameter", append([]byte{4, 1, 0, 0, 0, 0, 0, 40}, udp6...)...)
	six("icmp6 redirect", append(append([]byte{137, 0, 0, 0, 0, 0, 0, 0}, net.ParseIP("fe80::1")...), net.ParseIP("fd00::9")...)...)
	six("icmp6 query", append([]byte{130, 0, 0, 0, 0, 5, 0, 0}, net.ParseIP("ff02::fb")...)...)
	six("icmp6 query v2", append(append([]byte{130, 0, 0, 0, 0, 5, 0, 0}, net.ParseIP("ff02::fb")...), 10, 125, 0, 0)...)
	six("icmp6 unknown", 99, 1, 0, 0, 1, 2, 3, 4)
	route := append(append([]byte{17, 4, 4, 1, 1, 0, 0, 7}, ip6A...), net.ParseIP("fd00::9")...)
	add("segment route", frame(t, true, 0x86dd, ip6(43), gopacket.Payload(route), badUDP(8)))
	add("routing unknown", frame(t, true, 0x86dd, ip6(43), gopacket.Payload{17, 0, 9, 0, 0, 0, 0, 0}, badUDP(8)))

	to := func(name string, port layers.UDPPort, b ...byte) {
		i4, h := ip4(17), layers.UDP{SrcPort: 40000, DstPort: port}
		h.SetNetworkLayerForChecksum(i4)
		add(name, frame(t, true, 0x0800, i4, &h, gopacket.Payload(b)))
	}
	inner := frame(t, true, 0x0800, ip4(17), badUDP(8))
	to("vxlan", 4789, append([]byte{8, 0, 0, 0, 0, 1, 2, 0}, inner...)...)
	to("vxlan invalid", 4789, append([]byte{0, 0, 0, 0, 0, 1, 2, 0}, inner...)...)
	to("geneve", 6081, append([]byte{0, 0, 0x65, 0x58, 0, 1, 2, 0}, inner...)...)
	to("geneve options", 6081, append([]byte{2, 0xc0, 8, 0, 0, 1, 2, 0, 1, 2, 0x80, 1, 0, 0, 0, 5}, udp...)...)
	to("mpls in udp", 6635, append([]byte{0, 6, 0x41, 64}, udp...)...)
	for name, b := range dnsMessages {
		to("dns "+name, 53, b...)
		to("mdns "+name, 5353, b...)
	}
	tcp := func(name string, flags byte, options ...byte) {
		b := append([]byte{0, 81, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 2, byte(5+len(options)/4) << 4, flags, 1, 0, 0, 0, 0, 0}, options...)
		ip("tcp "+name, 6, b...)
	}
	tcp("fast open", 2, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1)
	tcp("fast open request", 2, 34, 2, 1, 1)
	tcp("mptcp capable", 2, 30, 12, 1, 0x81, 1, 2, 3, 4, 5, 6, 7, 8)
	tcp("mptcp join", 2, 30, 12, 0x11, 1, 1, 2, 3, 4, 5, 6, 7, 8)
	tcp("mptcp dss", 16, 30, 20, 0x20, 5, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 5, 0xab, 0xcd)
	tcp("mptcp add", 16, 30, 8, 0x31, 1, 10, 0, 0, 9)
	tcp("mptcp rest", 16, 30, 4, 0x40, 1, 30, 4, 0x51, 1, 30, 12, 0x70, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	tcp("other options", 16, 28, 4, 0x80, 9, 29, 6, 1, 2, 3, 4, 99, 4, 1, 2, 254, 4, 0xf9, 0x89, 0, 0, 0, 0)
	tcp("bad option", 16, 2, 9, 0, 0)
	tcp("bad option later", 16, 1, 1, 8, 9)
	return packets
}

var dnsMessages = map[string][]byte{
	"query": {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 'w', 'w', 'w', 2, 'e', 'x', 0, 0, 1, 0, 1},
	"answer": {0, 7, 0x85, 0x80, 0, 1, 0, 3, 0, 0, 0, 0, 3, 'w', 'w', 'w', 2, 'e', 'x', 0, 0, 1, 0, 1,
		0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, 'a', 0xc0, 16, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 9,
		0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, 5, 4, 't', 'e', 1, 't'},
	"error":  {0, 7, 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0, 2, 'e', 'x', 0, 0, 28, 0, 1},
	"option": {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8},
	"srv":    {0, 7, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 'e', 'x', 0, 0, 33, 0x80, 1, 0, 0, 0, 60, 0, 8, 0, 1, 0, 2, 0, 80, 0xc0, 12},
	"bad mx": {0, 7, 0x85, 0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 15, 0, 1, 0, 0, 0, 60, 0, 6, 0, 10, 1, 'a', 0x7f, 0},
	"loop":   {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1},
	"cut":    {0, 7, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 'w', 'w', 'w', 0, 0, 1, 0, 1},
	"tsig":   {0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 17, 0, 1, 2, 3, 4, 5, 6, 1, 44, 0, 0, 0, 7, 0, 0, 0, 0},
}
