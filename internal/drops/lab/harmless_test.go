package lab

import (
	"net"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// groupMAC is the Ethernet address of a group.
func groupMAC(ip net.IP) net.HardwareAddr {
	if v4 := ip.To4(); v4 != nil {
		return net.HardwareAddr{1, 0, 0x5e, v4[1] & 127, v4[2], v4[3]}
	}
	return slices.Concat(net.HardwareAddr{0x33, 0x33}, net.HardwareAddr(ip[12:]))
}

// toGroup sends to a group, or to all.
func toGroup(ip net.IP, p packet) func(*lab) uint64 {
	p.dst, p.to = ip, groupMAC(ip)
	if ip.Equal(net.IPv4bcast) || ip[len(ip)-1] == 255 {
		p.to = broadcast
	}
	return sends(p)
}

// toMAC sends frames of a protocol to an address of Ethernet.
func toMAC(to net.HardwareAddr, kind uint16, data ...byte) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		return l.send(each, ethernet(to, kind, data, make([]byte, 46)))
	}
}

// local returns a group of the standards of bridges.
func local(last byte) net.HardwareAddr { return net.HardwareAddr{1, 0x80, 0xc2, 0, 0, last} }

var harmless = []cause{
	{name: "no loss: mDNS", do: toGroup(net.IP{224, 0, 0, 251}, packet{payload: datagram(5353, 100)}), found: "harmless NOT_SPECIFIED ip_rcv_finish_core|harmless NOT_SPECIFIED __udp4_*"},
	{name: "no loss: SSDP", do: toGroup(net.IP{239, 255, 255, 250}, packet{payload: datagram(1900, 100)}), found: "harmless NOT_SPECIFIED ip_rcv_finish_core"},
	{name: "no loss: OSPF", do: toGroup(net.IP{224, 0, 0, 5}, packet{protocol: 89}), found: "harmless NOT_SPECIFIED ip_rcv_finish_core"},
	{name: "no loss: VRRP", do: toGroup(net.IP{224, 0, 0, 18}, packet{protocol: 112}), found: "harmless NOT_SPECIFIED ip_rcv_finish_core"},
	{name: "no loss: DHCP of others", do: toGroup(net.IPv4bcast, packet{src: net.IPv4zero, payload: datagram(67, 240)}), found: "harmless NOT_SPECIFIED __udp4_*"},
	{name: "no loss: NetBIOS", do: toGroup(net.IP{192, 0, 2, 255}, packet{payload: datagram(137, 100)}), found: "harmless NOT_SPECIFIED __udp4_*"},
	{name: "no loss: broadcast of this host, to itself", do: func(l *lab) uint64 {
		l.begin()
		l.must(l.Rx.Do(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			l.must(err)
			defer unix.Close(fd)
			l.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
			for range each {
				l.must(unix.Sendto(fd, []byte("to all"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{192, 0, 2, 255}}))
			}
			return nil
		}))
		return each
	}, found: "harmless NOT_SPECIFIED __udp4_*"},
	{name: "no loss: multicast of this host, to itself", do: func(l *lab) uint64 {
		conn := l.listen("udp4", 0)
		l.join(conn, net.IP{239, 1, 2, 3})
		l.begin()
		l.must(l.Rx.Do(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			l.must(err)
			defer unix.Close(fd)
			l.must(unix.SetsockoptInet4Addr(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, [4]byte{192, 0, 2, 2}))
			for range each {
				l.must(unix.Sendto(fd, []byte("to the group"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{239, 1, 2, 3}}))
			}
			return nil
		}))
		return each
	}, found: "harmless NOT_SPECIFIED __udp4_*"},
	{name: "no loss: group that was joined, port that was not", do: func(l *lab) uint64 {
		conn := l.listen("udp4", 0)
		l.join(conn, net.IP{239, 1, 2, 3})
		return toGroup(net.IP{239, 1, 2, 3}, packet{})(l)
	}, found: "harmless NOT_SPECIFIED __udp4_*"},
	{name: "no loss: another host's", do: sends(packet{to: stranger}), found: "harmless OTHERHOST ip_rcv_core"},
	{name: "no loss: IPv6 of another host", v6: true, do: sends(packet{to: stranger, dst: rx6}), found: "harmless OTHERHOST ip6_rcv_core"},
	{name: "no loss: mDNS of IPv6", v6: true, do: toGroup(net.ParseIP("ff02::fb"), packet{payload: sealed(unix.IPPROTO_UDP, tx6, net.ParseIP("ff02::fb"), 6, datagram(5353, 100))}), found: "harmless NOT_SPECIFIED ip6_mc_input"},
	{name: "no loss: all nodes of IPv6, port that nobody has", v6: true, do: toGroup(net.ParseIP("ff02::1"), packet{payload: sealed(unix.IPPROTO_UDP, tx6, net.ParseIP("ff02::1"), 6, datagram(10001, 100))}), found: "harmless NOT_SPECIFIED __udp6_*|harmless NO_SOCKET __udp6_*"},
	{name: "no loss: group of IPv6, where that is off", do: toGroup(net.ParseIP("ff02::1"), packet{}), found: "harmless IPV6DISABLED ip6_rcv_core"},
	{name: "no loss: LLDP", do: toMAC(local(0x0e), 0x88cc), found: "harmless UNHANDLED_PROTO __netif_receive_skb_core*"},
	{name: "no loss: STP", do: toMAC(local(0), 46+3, 0x42, 0x42, 3), found: "harmless NOT_SPECIFIED stp_pdu_rcv|harmless NOT_SPECIFIED llc_rcv|harmless UNHANDLED_PROTO *"},
	{name: "no loss: CDP", do: toMAC(net.HardwareAddr{1, 0, 0x0c, 0xcc, 0xcc, 0xcc}, 46+8, 0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0), found: "harmless NOT_SPECIFIED snap_rcv|harmless NOT_SPECIFIED llc_rcv|harmless UNHANDLED_PROTO *"},
	{name: "no loss: LACP", do: toMAC(local(2), 0x8809), found: "harmless UNHANDLED_PROTO __netif_receive_skb_core*"},
	{name: "no loss: pause frame", do: toMAC(local(1), 0x8808), found: "harmless UNHANDLED_PROTO __netif_receive_skb_core*"},
	{name: "no loss: authentication of the port", do: toMAC(local(3), 0x888e), found: "harmless UNHANDLED_PROTO __netif_receive_skb_core*"},
	{name: "no loss: queue of a socket that closes", do: func(l *lab) uint64 {
		conn := l.listenAt("udp4", 46871, 0)
		sent := sends(packet{payload: datagram(46871, 100)})(l)
		l.must(conn.Close())
		return sent
	}, found: "harmless NOT_SPECIFIED udp_destruct_common", filter: "udp port 46871"},
	{name: "no loss: copy for a packet socket without room", do: func(l *lab) uint64 {
		fd := l.packetSocket()
		l.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
		sent := l.send(each, ethernet(testnet.RxEndpoint.MAC, 0x88b5, make([]byte, 100)))
		return sent - uint64(l.waiting(fd))
	}, found: "harmless PACKET_SOCK_ERROR packet_rcv|harmless NOT_SPECIFIED packet_rcv"},
	{name: "no loss: trial of a program", of: "-", do: func(l *lab) uint64 {
		program := l.load(ebpf.SchedCLS, asm.Instructions{asm.Mov.Imm(asm.R0, 0)})
		l.must(l.Rx.Do(func() error {
			_, _, err := program.Test(packet{}.frame()) // the library tries another one before
			l.must(err)
			l.begin()
			for range each {
				if _, _, err := program.Test(packet{}.frame()); err != nil {
					return err
				}
			}
			return nil
		}))
		return each
	}, found: "harmless NOT_SPECIFIED bpf_prog_test_run_skb"},
}

// join makes a socket a member of a group at the receiving interface.
func (l *lab) join(conn *net.UDPConn, group net.IP) {
	l.Helper()
	raw, err := conn.SyscallConn()
	l.must(err)
	l.must(raw.Control(func(fd uintptr) {
		l.must(unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: [4]byte(group.To4()), Ifindex: int32(l.RxIndex)}))
	}))
}

// packetSocket opens a packet socket on the receiving interface, which nobody reads.
func (l *lab) packetSocket() (fd int) {
	l.Helper()
	l.must(l.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		return err
	}))
	l.Cleanup(func() { unix.Close(fd) })
	l.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: l.RxIndex}))
	return fd
}
