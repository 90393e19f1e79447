package lab

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// sends is a cause for which the packets alone suffice.
func sends(packets ...packet) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		var frames [][]byte
		for _, p := range packets {
			frames = append(frames, p.frame())
		}
		return l.send(each, frames...)
	}
}

// withOptions is a packet with options of IPv4.
func withOptions(options ...byte) packet {
	for len(options)%4 != 0 {
		options = append(options, 0)
	}
	return packet{options: options}
}

const (
	moreFragments  = 0x2000 // in the field of fragments
	protocolUDP136 = 136    // UDP-Lite
)

var ofIP = []cause{
	{name: "closed port of UDP", do: sends(packet{}), found: "stack NO_SOCKET __udp4_lib_rcv|stack NO_SOCKET udp4_lib_rcv|stack NO_SOCKET udp_rcv", advice: "nobody listens", culprit: "one was for udp 192.0.2.2:9, from 192.0.2.1"},
	{name: "closed port of UDP-Lite", do: func(l *lab) uint64 {
		p := packet{protocol: protocolUDP136}
		p.payload = datagram(9, 100)
		p.payload = sealed(protocolUDP136, testnet.TxEndpoint.IPv4, testnet.RxEndpoint.IPv4, 6, p.payload)
		return sends(p)(l)
	}, found: "stack NO_SOCKET __udp4_lib_rcv|stack IP_NOPROTO *", advice: "nobody listens", culprit: "for udplite 192.0.2.2:9"},
	{name: "protocol that the kernel does not have", do: sends(packet{protocol: 200}), found: "stack IP_NOPROTO ip_*deliver*", advice: "no module"},
	{name: "checksum of IP", do: sends(packet{sum: 1}), found: "stack IP_CSUM ip_rcv_core", advice: "checksum of the IP header"},
	{name: "length of the header", do: sends(packet{version: 0x44}), found: "stack IP_INHDR ip_rcv_core", advice: "damaged"},
	{name: "version", do: sends(packet{version: 0x65}), found: "stack IP_INHDR ip_rcv_core", advice: "damaged"},
	{name: "length of the packet", do: sends(packet{length: 300}), found: "stack PKT_TOO_SMALL ip_rcv_core", advice: "shorter than"},
	{name: "length shorter than the header", do: sends(packet{length: 8}), found: "stack IP_INHDR ip_rcv_core", advice: "damaged"},
	{name: "piece of a header", do: func(l *lab) uint64 {
		return l.send(each, ethernet(testnet.RxEndpoint.MAC, unix.ETH_P_IP, []byte{0x45, 0, 0}))
	}, found: "stack IP_INHDR ip_rcv_core|stack PKT_TOO_SMALL ip_rcv_core", advice: "damaged"},
	{name: "damaged option", do: sends(withOptions(68, 40, 5)), found: "stack IP_INHDR ip_rcv_finish_core|stack IP_INHDR ip_rcv_options|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "source route", do: func(l *lab) uint64 {
		l.set("ipv4/conf/all/accept_source_route", "0")
		return sends(withOptions(131, 7, 4, 192, 0, 2, 99))(l)
	}, found: "stack NOT_SPECIFIED ip_rcv_finish_core", advice: "source route"},
	{name: "checksum of UDP", do: func(l *lab) uint64 {
		d := sealed(unix.IPPROTO_UDP, testnet.TxEndpoint.IPv4, testnet.RxEndpoint.IPv4, 6, datagram(9, 100))
		d[20] ^= 1
		return sends(packet{payload: d})(l)
	}, found: "stack UDP_CSUM __udp4_lib_rcv", advice: "checksum is wrong"},
	{name: "length of UDP", do: func(l *lab) uint64 {
		d := datagram(9, 100)
		d[4] = 9
		return sends(packet{payload: d})(l)
	}, found: "stack PKT_TOO_SMALL __udp4_lib_rcv", advice: "shorter than"},
	{name: "checksum of ICMP", do: sends(packet{protocol: unix.IPPROTO_ICMP, payload: []byte{8, 0, 1, 1, 0, 0, 0, 0}}), found: "stack ICMP_CSUM icmp_rcv", advice: "checksum of ICMP"},
	{name: "fragments that never come", do: func(l *lab) uint64 {
		l.set("ipv4/ipfrag_time", "1")
		for i := range uint16(each) {
			l.send(1, packet{id: i + 1, frag: moreFragments}.frame())
		}
		return each
	}, found: "stack FRAG_REASM_TIMEOUT ip_expire|stack FRAG_REASM_TIMEOUT *frag*|stack NOT_SPECIFIED *frag*|stack NOT_SPECIFIED ip_expire", advice: "fragments"},
	{name: "fragments that overlap", do: func(l *lab) uint64 {
		first := packet{id: 7, frag: moreFragments, payload: make([]byte, 64)}
		second := packet{id: 7, frag: 4, payload: make([]byte, 96)}
		for i := range uint16(each) {
			first.id, second.id = i+1, i+1
			l.send(1, first.frame(), second.frame())
		}
		return each // the first ones are consumed
	}, found: "stack *FRAG* *|stack NOT_SPECIFIED *frag*|stack NOT_SPECIFIED ip_defrag", advice: "fragment"},
	{name: "the same fragment twice", do: func(l *lab) uint64 {
		l.set("ipv4/ipfrag_time", "300")
		l.send(1, packet{id: 7, frag: moreFragments}.frame())
		return l.send(each, packet{id: 7, frag: moreFragments}.frame())
	}, found: "stack DUP_FRAG *|stack NOT_SPECIFIED *frag*", advice: "twice"},
	{name: "source 127.0.0.1", do: sends(packet{src: net.IP{127, 0, 0, 1}}), found: "stack IP_LOCALNET *|stack IP_INVALID_SOURCE *|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "destination 127.0.0.1", do: sends(packet{dst: net.IP{127, 0, 0, 1}}), found: "stack IP_LOCALNET *|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "source that is a group", do: sends(packet{src: net.IP{224, 0, 0, 9}}), found: "stack IP_INVALID_SOURCE *|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "destination that nobody can have", do: sends(packet{dst: net.IP{0, 0, 0, 0}}), found: "stack IP_INVALID_DEST *|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "own address as the source", do: sends(packet{src: testnet.RxEndpoint.IPv4}), found: "stack IP_LOCAL_SOURCE *|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "source 0.0.0.0", do: sends(packet{src: net.IP{0, 0, 0, 0}}), found: "stack IP_INVALID_SOURCE *|stack NOT_SPECIFIED ip_rcv_finish_core", advice: "who sends them"},
	{name: "unicast address, broadcast frame", do: func(l *lab) uint64 {
		l.set("ipv4/conf/all/drop_unicast_in_l2_multicast", "1")
		return sends(packet{to: broadcast})(l)
	}, found: "stack UNICAST_IN_L2_MULTICAST ip_rcv_finish_core", advice: "drop_unicast_in_l2_multicast"},
	{name: "EtherType that nobody takes", do: func(l *lab) uint64 {
		return l.send(each, ethernet(testnet.RxEndpoint.MAC, 0x88b6, make([]byte, 50)))
	}, found: "stack UNHANDLED_PROTO __netif_receive_skb_core*", advice: "EtherType"},
	{name: "VLAN that no interface has", do: func(l *lab) uint64 {
		return l.send(each, testnet.VLAN(packet{}.frame(), 77))
	}, found: "stack OTHERHOST ip_rcv_core", advice: "in a VLAN"},
}

// extension is an extension header of IPv6, before the payload.
func extension(next byte, fields []byte, payload []byte) []byte {
	h := append([]byte{next, 0}, fields...)
	for len(h)%8 != 0 {
		h = append(h, 0)
	}
	h[1] = byte(len(h)/8 - 1)
	return append(h, payload...)
}

var (
	tx6, rx6  = testnet.TxEndpoint.IPv6, testnet.RxEndpoint.IPv6
	datagram6 = sealed(unix.IPPROTO_UDP, tx6, rx6, 6, datagram(9, 100))
)

// fragment6 is a fragment of IPv6: the offset is in units of 8 bytes.
func fragment6(id uint32, offset uint16, more bool, payload []byte) packet {
	fields := make([]byte, 6)
	at := offset << 3
	if more {
		at |= 1
	}
	binary.BigEndian.PutUint16(fields, at)
	binary.BigEndian.PutUint32(fields[2:], id)
	h := append([]byte{unix.IPPROTO_UDP, 0}, fields...)
	return packet{dst: rx6, protocol: unix.IPPROTO_FRAGMENT, payload: append(h, payload...)}
}

var ofIPv6 = []cause{
	{name: "IPv6 that is off", do: sends(packet{dst: rx6}), found: "stack IPV6DISABLED ip6_rcv_core", advice: "IPv6 is off"},
	{name: "IPv6: closed port of UDP", v6: true, do: sends(packet{dst: rx6}), found: "stack NO_SOCKET __udp6_lib_rcv|stack NO_SOCKET udpv6_rcv", advice: "nobody listens", culprit: "for udp [2001:db8::2]:9"},
	{name: "IPv6: protocol that the kernel does not have", v6: true, do: sends(packet{dst: rx6, protocol: 200}), found: "stack IP_NOPROTO ip6_*", advice: "no module"},
	{name: "IPv6: version", v6: true, do: sends(packet{dst: rx6, version: 0x50}), found: "stack IP_INHDR ip6_rcv_core|stack UNHANDLED_PROTO ip6_rcv_core|stack NOT_SPECIFIED ip6_rcv_core", advice: "damaged"},
	{name: "IPv6: length of the packet", v6: true, do: sends(packet{dst: rx6, length: 300}), found: "stack PKT_TOO_SMALL ip6_rcv_core", advice: "shorter than"},
	{name: "IPv6: source that is a group", v6: true, do: sends(packet{src: net.ParseIP("ff02::1"), dst: rx6}), found: "stack IP_INHDR ip6_rcv_core|stack IPV6_BAD* ip6_rcv_core|stack NOT_SPECIFIED ip6_rcv_core", advice: "who sends them"},
	{name: "IPv6: option that must be known", v6: true, do: sends(packet{dst: rx6, protocol: unix.IPPROTO_DSTOPTS, payload: extension(unix.IPPROTO_UDP, []byte{0x7e, 4, 0, 0, 0, 0}, datagram6)}), found: "stack UNHANDLED_PROTO ip6_*|stack NOT_SPECIFIED ip6_*", advice: "option"},
	{name: "IPv6: option that must be answered", v6: true, do: sends(packet{dst: rx6, protocol: unix.IPPROTO_DSTOPTS, payload: extension(unix.IPPROTO_UDP, []byte{0x9e, 4, 0, 0, 0, 0}, datagram6)}), found: "stack UNHANDLED_PROTO ip6_*|stack NOT_SPECIFIED ip6_*", advice: "option"},
	{name: "IPv6: route of type 0", v6: true, do: sends(packet{dst: rx6, protocol: unix.IPPROTO_ROUTING, payload: extension(unix.IPPROTO_UDP, append([]byte{0, 1, 0, 0, 0, 0}, elsewhere6...), datagram6)}), found: "stack IP_INHDR ipv6_rthdr_rcv|stack NOT_SPECIFIED ipv6_rthdr_rcv|stack NOT_SPECIFIED *param_prob*", advice: "routing"},
	{name: "IPv6: checksum of UDP", v6: true, do: func(l *lab) uint64 {
		d := append([]byte(nil), datagram6...)
		d[20] ^= 1
		return sends(packet{dst: rx6, payload: d})(l)
	}, found: "stack UDP_CSUM __udp6_lib_rcv|stack NO_SOCKET __udp6_lib_rcv", advice: "nobody listens", culprit: "for udp [2001:db8::2]:9"},
	{name: "IPv6: datagram without a checksum", v6: true, do: func(l *lab) uint64 {
		return sends(packet{dst: rx6, payload: datagram(l.udpPort("udp6", 0), 100)})(l)
	}, found: "stack UDP_CSUM __udp6_lib_rcv", advice: "checksum is wrong"},
	{name: "IPv6: fragments that never come", v6: true, do: func(l *lab) uint64 {
		l.set("ipv6/ip6frag_time", "1")
		for i := range uint32(each) {
			l.send(1, fragment6(i+1, 0, true, datagram6[:104]).frame())
		}
		return each
	}, found: "stack FRAG_REASM_TIMEOUT *|stack NOT_SPECIFIED *frag*", advice: "fragments"},
	{name: "IPv6: fragments that overlap", v6: true, do: func(l *lab) uint64 {
		for i := range uint32(each) {
			l.send(1, fragment6(i+1, 0, true, make([]byte, 64)).frame(), fragment6(i+1, 4, false, make([]byte, 96)).frame())
		}
		return each
	}, found: "stack *FRAG* *|stack NOT_SPECIFIED *frag*", advice: "fragment"},
}
