package dissect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/xdpcap/xdpcap/internal/headers"
)

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	macB = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	ipA  = net.IP{10, 0, 0, 1}
	ipB  = net.IP{10, 0, 0, 2}
	ip6A = net.ParseIP("fd00::1")
	ip6B = net.ParseIP("fe80::2:0:0:3")
)

// frame serializes layers below an Ethernet header of the given type. Lengths are set; checksums
// where sums is true.
func frame(t testing.TB, sums bool, eth layers.EthernetType, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	l = append([]gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: eth}}, l...)
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: sums}, l...)
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func ip4(proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Id: 77, Protocol: proto, SrcIP: ipA, DstIP: ipB}
}

func ip6(proto layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: proto, SrcIP: ip6A, DstIP: ip6B}
}

type packet struct {
	name string
	data []byte
	link headers.Link
}

// plainPackets are packets whose lines must be tcpdump's own.
func plainPackets(t testing.TB) []packet {
	t.Helper()
	var packets []packet
	add := func(name string, data []byte) { packets = append(packets, packet{name: name, data: data}) }
	payload := func(n int) gopacket.Payload { return bytes.Repeat([]byte{0xa5}, n) }
	opt := func(kind layers.TCPOptionKind, data ...byte) layers.TCPOption {
		n := uint8(2 + len(data))
		if kind < 2 {
			n = 1
		}
		return layers.TCPOption{OptionType: kind, OptionLength: n, OptionData: data}
	}
	tcp := func(name string, h layers.TCP, n int) {
		h.SrcPort, h.DstPort = 40000, 50001
		i4, i6, h6 := ip4(6), ip6(6), h
		h.SetNetworkLayerForChecksum(i4)
		add("tcp "+name, frame(t, true, 0x0800, i4, &h, payload(n)))
		h6.SetNetworkLayerForChecksum(i6)
		add("tcp6 "+name, frame(t, true, 0x86dd, i6, &h6, payload(n)))
	}
	tcp("syn", layers.TCP{Seq: 1, SYN: true, Window: 64240, Options: []layers.TCPOption{
		opt(2, 5, 180), opt(4), opt(8, 0, 0, 1, 2, 0, 0, 0, 0), opt(1), opt(3, 7)}}, 0)
	tcp("syn ack", layers.TCP{Seq: 1e9, Ack: 2, SYN: true, ACK: true, Window: 100, Options: []layers.TCPOption{opt(2, 5, 180)}}, 0)
	tcp("ack", layers.TCP{Seq: 2, Ack: 1000000001, ACK: true, Window: 502}, 0)
	tcp("push", layers.TCP{Seq: 2, Ack: 3, PSH: true, ACK: true, Window: 502, Options: []layers.TCPOption{
		opt(1), opt(1), opt(8, 1, 2, 3, 4, 5, 6, 7, 8)}}, 33)
	tcp("sack", layers.TCP{Seq: 2, Ack: 3, ACK: true, Window: 502, Options: []layers.TCPOption{
		opt(1), opt(1), opt(5, 0, 0, 0, 9, 0, 0, 0, 19, 0, 0, 0, 29, 0, 0, 0, 39)}}, 0)
	tcp("fin", layers.TCP{Seq: 20, Ack: 3, FIN: true, ACK: true, Window: 502}, 0)
	tcp("rst", layers.TCP{Seq: 20, RST: true}, 0)
	tcp("urg", layers.TCP{Seq: 20, URG: true, ACK: true, Urgent: 5, Window: 1}, 8)
	tcp("ecn syn", layers.TCP{SYN: true, ECE: true, CWR: true, Window: 1}, 0)
	tcp("ns", layers.TCP{SYN: true, NS: true, Window: 1}, 0)
	tcp("none", layers.TCP{Window: 1}, 0)
	tcp("all", layers.TCP{FIN: true, SYN: true, RST: true, PSH: true, ACK: true, URG: true, ECE: true, CWR: true}, 0)

	udp := func(name string, n int, sums bool) {
		h := layers.UDP{SrcPort: 40000, DstPort: 50001}
		i4, i6, h6 := ip4(17), ip6(17), h
		h.SetNetworkLayerForChecksum(i4)
		add("udp "+name, frame(t, sums, 0x0800, i4, &h, payload(n)))
		h6.SetNetworkLayerForChecksum(i6)
		add("udp6 "+name, frame(t, sums, 0x86dd, i6, &h6, payload(n)))
	}
	udp("22", 22, true)
	udp("empty", 0, true)
	udp("no sums", 5, false)
	bad := frame(t, true, 0x0800, ip4(17), badUDP(3))
	add("udp bad sum", bad)
	add("tcp bad sum", frame(t, true, 0x0800, ip4(6),
		gopacket.Payload{0x9c, 0x40, 0xc3, 0x51, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0, 0, 0, 0x12, 0x34, 0, 0}))
	add("udp padded", append(frame(t, true, 0x0800, ip4(17), badUDP(3)), make([]byte, 15)...))

	icmp := func(name string, typ, code uint8, id, seq uint16, rest gopacket.SerializableLayer) {
		add("icmp "+name, frame(t, true, 0x0800, ip4(1),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(typ, code), Id: id, Seq: seq}, rest))
	}
	inner := gopacket.Payload(frame(t, true, 0x0800, ip4(17), badUDP(3))[14:])
	icmp("echo", 8, 0, 7, 1, payload(56))
	icmp("reply", 0, 0, 7, 1, payload(56))
	for code := range uint8(16) {
		icmp(fmt.Sprint("unreachable ", code), 3, code, 0, 1400, inner)
	}
	icmp("time exceeded", 11, 0, 0, 0, inner)
	icmp("reassembly", 11, 1, 0, 0, inner)

	arp := func(name string, op uint16, srcMAC, dstMAC net.HardwareAddr, src, dst net.IP) {
		add("arp "+name, frame(t, true, 0x0806, &layers.ARP{AddrType: 1, Protocol: 0x0800, HwAddressSize: 6, ProtAddressSize: 4,
			Operation: op, SourceHwAddress: srcMAC, SourceProtAddress: src, DstHwAddress: dstMAC, DstProtAddress: dst}))
	}
	zero := net.HardwareAddr{0, 0, 0, 0, 0, 0}
	arp("request", 1, macA, zero, ipA, ipB)
	arp("request to", 1, macA, macB, ipA, ipB)
	arp("reply", 2, macA, macB, ipA, ipB)
	arp("probe", 1, macA, zero, net.IP{0, 0, 0, 0}, ipB)
	arp("gratuitous", 1, macA, zero, ipA, ipA)
	arp("announcement", 2, macA, macA, ipA, ipA)
	add("arp padded", append(packets[len(packets)-6].data, make([]byte, 18)...))

	icmp6 := func(name string, typ, code uint8, hop uint8, body ...byte) {
		i6 := ip6(58)
		i6.HopLimit = hop
		h := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, code)}
		h.SetNetworkLayerForChecksum(i6)
		add("icmp6 "+name, frame(t, true, 0x86dd, i6, h, gopacket.Payload(body)))
	}
	target := append([]byte{0, 0, 0, 0}, ip6B...)
	lla := []byte{1, 1, 2, 0, 0, 0, 0, 1}
	icmp6("echo", 128, 0, 64, append([]byte{0, 7, 0, 1}, make([]byte, 56)...)...)
	icmp6("reply", 129, 0, 64, 0, 7, 0, 1)
	icmp6("solicitation", 135, 0, 255, append(target[:20:20], lla...)...)
	icmp6("advertisement", 136, 0, 255, append(append([]byte{0xe0, 0, 0, 0}, ip6B...), 2, 1, 2, 0, 0, 0, 0, 1)...)
	icmp6("advertisement bare", 136, 0, 255, append([]byte{0x40, 0, 0, 0}, ip6B...)...)
	icmp6("router solicitation", 133, 0, 255, append([]byte{0, 0, 0, 0}, lla...)...)
	prefix := append([]byte{3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0}, ip6A...)
	ra := append([]byte{64, 0xc8, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}, prefix...)
	icmp6("router advertisement", 134, 0, 255, append(append(ra, 5, 1, 0, 0, 0, 0, 5, 0xdc), lla...)...)
	inner6 := frame(t, true, 0x86dd, ip6(17), badUDP(3))[14:]
	icmp6("too big", 2, 0, 64, append([]byte{0, 0, 5, 0}, inner6...)...)
	add("icmp6 listener report", frame(t, true, 0x86dd, ip6(0), gopacket.Payload(append(
		[]byte{58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0}, net.ParseIP("ff02::fb")...))))

	frag := ip4(17)
	frag.Flags = layers.IPv4MoreFragments
	add("first fragment", frame(t, true, 0x0800, frag, badUDP(24)))
	frag2 := ip4(17)
	frag2.FragOffset = 3
	add("last fragment", frame(t, true, 0x0800, frag2, payload(24)))
	frag3 := ip4(6)
	frag3.FragOffset, frag3.Flags = 3, layers.IPv4MoreFragments
	add("middle fragment", frame(t, true, 0x0800, frag3, payload(24)))
	df := ip4(17)
	df.Flags, df.TOS = layers.IPv4DontFragment, 0x2e<<2|3
	add("tos, df", frame(t, true, 0x0800, df, badUDP(1)))
	for ecn := range uint8(2) {
		i := ip4(17)
		i.TOS = 1 + ecn
		add(fmt.Sprint("ecn ", ecn), frame(t, true, 0x0800, i, badUDP(1)))
	}
	class := ip6(17)
	class.TrafficClass, class.FlowLabel = 0xb8, 0x12345
	add("class, flow", frame(t, true, 0x86dd, class, badUDP(1)))
	for _, proto := range []layers.IPProtocol{99, 253, 255} {
		add(fmt.Sprint("proto ", uint8(proto)), frame(t, true, 0x0800, ip4(proto), payload(24)))
		add(fmt.Sprint("proto6 ", uint8(proto)), frame(t, true, 0x86dd, ip6(proto), payload(24)))
	}
	add("esp", frame(t, true, 0x0800, ip4(50), payload(24)))
	add("sctp", frame(t, true, 0x0800, ip4(132), payload(24)))
	add("no next header", frame(t, true, 0x86dd, ip6(59), payload(0)))
	add("hop by hop", frame(t, true, 0x86dd, ip6(0), gopacket.Payload{17, 0, 1, 4, 0, 0, 0, 0}, badUDP(1)))
	add("fragment6 first", frame(t, true, 0x86dd, ip6(44), gopacket.Payload{17, 0, 0, 1, 0, 0, 0, 9}, badUDP(8)))
	add("fragment6 later", frame(t, true, 0x86dd, ip6(44), gopacket.Payload{17, 0, 0, 24, 0, 0, 0, 9}, payload(8)))
	add("destination options", frame(t, true, 0x86dd, ip6(60), gopacket.Payload{17, 0, 1, 4, 0, 0, 0, 0}, badUDP(8)))
	add("ipip", frame(t, true, 0x0800, ip4(4), ip4(17), badUDP(8)))
	add("ip6 in ip", frame(t, true, 0x0800, ip4(41), ip6(17), badUDP(8)))
	add("ip in ip6", frame(t, true, 0x86dd, ip6(4), ip4(17), badUDP(8)))
	add("ip6 in ip6", frame(t, true, 0x86dd, ip6(41), ip6(17), badUDP(8)))
	add("gre", frame(t, true, 0x0800, ip4(47), &layers.GRE{Protocol: 0x0800}, ip4(17), badUDP(8)))
	opts := ip4(17)
	opts.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}
	add("ip options", frame(t, true, 0x0800, opts, badUDP(8)))
	sum := frame(t, true, 0x0800, ip4(17), badUDP(8))
	sum[14+10] ^= 0xff
	add("ip bad sum", sum)
	return packets
}

// badUDP is a UDP header with a wrong checksum, and n bytes of payload.
func badUDP(n int) gopacket.Payload {
	return append(gopacket.Payload{0x9c, 0x40, 0xc3, 0x51, 0, byte(8 + n), 0xb, 0xad}, make([]byte, n)...)
}

// cookedPackets are packets of tcpdump -i any. No interface has their index.
func cookedPackets(t testing.TB, version headers.Link) (packets []packet) {
	t.Helper()
	ip := frame(t, true, 0x0800, ip4(17), badUDP(5))[14:]
	rest := func(n int) string { return string(make([]byte, n)) }
	for i, p := range []struct {
		name, payload    string
		typ, kind, halen uint16
	}{
		{"in", string(ip), 0x0800, 0, 6},
		{"out", string(ip), 0x0800, 4, 6},
		{"broadcast", string(frame(t, true, 0x86dd, ip6(17), badUDP(0))[14:]), 0x86dd, 1, 6},
		{"multicast", "\x00\x01\x08\x00\x06\x04\x00\x01" + rest(20), 0x0806, 2, 6},
		{"others", string(ip), 0x0800, 3, 8},
		{"loopback", string(ip), 0x0800, 0, 0},
		{"unknown type", "hello world", 0x1234, 7, 6},
		{"unknown small type", "hello world", 3, 0, 6},
		{"spanning tree", "\x42\x42\x03" + rest(35), 4, 0, 6},
		{"SNAP", "\xaa\xaa\x03\x00\x00\x00\x08\x00" + string(ip), 4, 0, 6},
		{"VLAN", "\x20\x05\x08\x00" + string(ip), 0x8100, 0, 6},
		{"two VLANs", "\x20\x05\x81\x00\x00\x06\x08\x00" + string(ip), 0x8100, 0, 6},
		{"VLAN of a provider", "\x20\x05\x08\x00" + string(ip), 0x88a8, 0, 6},
	} {
		mac := append(append([]byte{}, macA...), 0, 0)
		data := []byte{byte(p.kind >> 8), byte(p.kind), 0, 1, byte(p.halen >> 8), byte(p.halen)}
		data = append(append(data, mac...), byte(p.typ>>8), byte(p.typ))
		if version == headers.Cooked2 {
			data = []byte{byte(p.typ >> 8), byte(p.typ), 0, 0, 0x7f, 0, 0, byte(i), 0, 1, byte(p.kind), byte(p.halen)}
			data = append(data, mac...)
		}
		packets = append(packets, packet{p.name, append(data, p.payload...), version})
	}
	return packets
}

// loopbackPackets are packets of BSD's loopback.
func loopbackPackets(t testing.TB) (packets []packet) {
	t.Helper()
	ip, ip6 := frame(t, true, 0x0800, ip4(17), badUDP(5))[14:], frame(t, true, 0x86dd, ip6(17), badUDP(0))[14:]
	for _, family := range []uint32{0, 2, 6, 10, 24, 28, 30, 99, 0x10002} {
		payload := ip
		if family >= 24 && family <= 30 {
			payload = ip6
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			packets = append(packets, packet{fmt.Sprint("family ", family, order), append(order.AppendUint32(nil, family), payload...), headers.Loopback})
		}
	}
	return packets
}

// rawPackets begin with the network's header.
func rawPackets(t testing.TB) (packets []packet) {
	for _, p := range plainPackets(t) {
		if p.data[12] == 0x08 && p.data[13] == 0 || p.data[12] == 0x86 {
			packets = append(packets, packet{p.name, p.data[14:], headers.Raw})
		}
	}
	return append(packets, packet{"unknown version", []byte{0, 1, 2, 3}, headers.Raw})
}
