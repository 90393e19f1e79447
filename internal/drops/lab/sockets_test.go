package lab

import (
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// rose returns by how much a counter of the receiving side rises while something is done: of a
// socket that is full nobody else knows how many packets found room.
func (l *lab) rose(file, name string, do func()) uint64 {
	l.Helper()
	before := l.counter(file, name)
	do()
	testnet.WaitHandled(l)
	return l.counter(file, name) - before
}

// counter reads a counter of /proc/net/FILE.
func (l *lab) counter(file, name string) (n uint64) {
	l.Helper()
	var content []byte
	l.must(l.Rx.Do(func() (err error) {
		content, err = os.ReadFile("/proc/thread-self/net/" + file)
		return err
	}))
	return parseCounter(string(content), name)
}

// fills is a cause for which a socket has no room.
func fills(network string, p packet, counters ...string) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		p := p
		p.payload = datagram(l.udpPort(network, 1), 1000)
		if network == "udp6" {
			p.payload = sealed(unix.IPPROTO_UDP, tx6, rx6, 6, p.payload)
		}
		l.begin()
		return l.rose(counters[0], counters[1], func() { sends(p)(l) })
	}
}

// rawSocket opens a raw socket of the receiving side, which gets all packets of a protocol of IPv4.
func (l *lab) rawSocket(protocol int) (fd int) {
	l.Helper()
	l.must(l.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		return err
	}))
	l.Cleanup(func() { unix.Close(fd) })
	return fd
}

var ofSockets = []cause{
	{name: "receive buffer", do: fills("udp4", packet{}, "snmp", "UdpRcvbufErrors"), found: "socket SOCKET_RCVBUFF *udp*", advice: "reads too slowly", culprit: ", receive buffer "},
	{name: "IPv6: receive buffer", v6: true, do: fills("udp6", packet{dst: rx6}, "snmp6", "Udp6RcvbufErrors"), found: "socket SOCKET_RCVBUFF *udp*", advice: "reads too slowly", culprit: ", receive buffer "},
	{name: "receive buffer of a raw socket", do: func(l *lab) uint64 {
		fd := l.rawSocket(201)
		l.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
		l.begin()
		return sends(packet{protocol: 201, payload: make([]byte, 1000)})(l) - uint64(l.waiting(fd))
	}, found: "socket SOCKET_RCVBUFF *raw*|stack NOT_SPECIFIED *raw*|socket SOCKET_RCVBUFF sock_queue_rcv_skb*|stack IP_NOPROTO ip_*", advice: "oo slowly"},
	{name: "filter of a socket", do: func(l *lab) uint64 {
		conn := l.listen("udp4", 0)
		l.refuseAll(conn)
		return sends(packet{payload: datagram(portOf(conn), 100)})(l)
	}, found: "socket SOCKET_FILTER *udp*", advice: "filter of the socket", culprit: ", receive buffer "},
	{name: "filter of a socket of TCP", do: func(l *lab) uint64 {
		c := l.connect(connectOptions{})
		filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
		l.must(unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &filter[0]}))
		return l.send(each, c.segment(segment{data: []byte("x")}))
	}, found: "socket SOCKET_FILTER tcp_v4_rcv", advice: "filter of the socket"},
	{name: "checksum found at the reader", do: func(l *lab) uint64 {
		conn := l.listen("udp4", 0)
		d := sealed(unix.IPPROTO_UDP, testnet.TxEndpoint.IPv4, testnet.RxEndpoint.IPv4, 6, datagram(portOf(conn), 400))
		d[20] ^= 1
		sent := sends(packet{payload: d})(l)
		raw, err := conn.SyscallConn()
		l.must(err)
		l.must(l.Rx.Do(func() error {
			return raw.Control(func(fd uintptr) { unix.Recvfrom(int(fd), make([]byte, 1500), unix.MSG_DONTWAIT) })
		}))
		return sent
	}, found: "stack UDP_CSUM *|stack NOT_SPECIFIED *udp*|stack NOT_SPECIFIED *first_packet_length", device: "?", advice: "checksum is wrong"},
	{name: "accept queue", of: "-", do: func(l *lab) uint64 {
		_, port := l.listenTCP(0)
		l.dial(port)
		return l.open(each, port)
	}, found: "socket TCP_LISTEN_OVERFLOW *, backlog 0", advice: "faster than accept"},
	{name: "accept queue, at the last packet", of: "-", do: func(l *lab) uint64 {
		l.set("ipv4/tcp_syncookies", "0")
		_, port := l.listenTCP(1)
		half := l.handshake(port, 0)
		l.dial(port)
		l.dial(port)
		return l.send(1, half.segment(segment{}))
	}, found: "socket TCP_LISTEN_OVERFLOW *", advice: "faster than accept"},
	{name: "queue of half-open connections", of: "-", do: func(l *lab) uint64 {
		l.set("ipv4/tcp_syncookies", "0")
		_, port := l.listenTCP(8)
		l.begin()
		return l.rose("netstat", "TcpExtTCPReqQFullDrop", func() { l.open(each, port) })
	}, found: "socket TCP_REQ_QUEUE_FULL *, backlog 8", advice: "tcp_max_syn_backlog"},
	{name: "last quarter of half-open connections", of: "-", do: func(l *lab) uint64 {
		l.set("ipv4/tcp_syncookies", "0")
		l.set("ipv4/tcp_max_syn_backlog", "8")
		_, port := l.listenTCP(100)
		l.begin()
		return l.rose("netstat", "TcpExtListenDrops", func() { l.open(each, port) })
	}, found: "socket TCP_LISTEN_DROP *, backlog 100", advice: "tcp_max_syn_backlog"},
}

func portOf(conn *net.UDPConn) uint16 { return uint16(conn.LocalAddr().(*net.UDPAddr).Port) }

// waiting takes the packets out of a socket, and returns how many there were.
func (l *lab) waiting(fd int) (packets int) {
	l.Helper()
	testnet.WaitHandled(l)
	for buf := make([]byte, 1<<16); ; packets++ {
		if _, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); err != nil {
			return packets
		}
	}
}

// refuseAll gives a socket a filter that no packet passes.
func (l *lab) refuseAll(conn *net.UDPConn) {
	l.Helper()
	raw, err := conn.SyscallConn()
	l.must(err)
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	l.must(raw.Control(func(fd uintptr) {
		l.must(unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &filter[0]}))
	}))
}

func number64(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64) // some are negative, and no counters
	return n
}

// parseCounter finds a counter in a file of /proc/net: of pairs of lines, names and values, or of a
// line for each.
func parseCounter(content, name string) (n uint64) {
	lines := strings.Split(content, "\n")
	for i, line := range lines {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == name {
			return number64(fields[1])
		}
		if len(fields) < 2 || i+1 == len(lines) {
			continue
		}
		values := strings.Fields(lines[i+1])
		for j, field := range fields[1:] {
			if strings.TrimSuffix(fields[0], ":")+field == name && len(values) == len(fields) && values[0] == fields[0] {
				return number64(values[j+1])
			}
		}
	}
	return 0
}
