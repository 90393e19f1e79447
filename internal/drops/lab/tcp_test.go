package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// listenTCP listens on the receiving side with this backlog.
func (l *lab) listenTCP(backlog int) (fd int, port uint16) {
	l.Helper()
	l.must(l.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		l.must(err)
		l.Cleanup(func() { unix.Close(fd) })
		l.must(unix.Bind(fd, &unix.SockaddrInet4{}))
		l.must(unix.Listen(fd, backlog))
		address, err := unix.Getsockname(fd)
		l.must(err)
		port = uint16(address.(*unix.SockaddrInet4).Port)
		return nil
	}))
	return fd, port
}

// dial makes a connection from the sending side, which waits to be accepted.
func (l *lab) dial(port uint16) {
	l.Helper()
	l.must(l.Tx.Do(func() error {
		conn, err := net.Dial("tcp4", fmt.Sprintf("%v:%d", testnet.RxEndpoint.IPv4, port))
		if err == nil {
			l.Cleanup(func() { conn.Close() })
		}
		return err
	}))
}

// A peer is a host that is not there: what it sends is made here, and nobody answers for it.
type peer struct {
	port, to uint16
	seq, ack uint32 // of its next segment
	stamps   bool
}

// A segment is one of TCP from a peer. Its fields are added to what would be right.
type segment struct {
	flags    byte // ACK if 0
	seq, ack uint32
	sum      uint16
	stamp    uint32 // of TCP's option, if the peer has stamps
	options  []byte
	data     []byte
}

const (
	fin, syn, rst, psh, ackFlag = 1, 2, 4, 8, 16
	timestamps                  = 8 // option
	md5Signature                = 19
)

// segment builds the frame of one.
func (p *peer) segment(s segment) []byte {
	h := make([]byte, 20)
	binary.BigEndian.PutUint16(h, p.port)
	binary.BigEndian.PutUint16(h[2:], p.to)
	binary.BigEndian.PutUint32(h[4:], p.seq+s.seq)
	s.flags = or(s.flags, ackFlag)
	if s.flags&ackFlag != 0 {
		binary.BigEndian.PutUint32(h[8:], p.ack+s.ack)
	}
	if p.stamps {
		s.options = append(s.options, 1, 1, timestamps, 10)
		s.options = binary.BigEndian.AppendUint32(s.options, s.stamp)
		s.options = append(s.options, 0, 0, 0, 0)
	}
	for len(s.options)%4 != 0 {
		s.options = append(s.options, 1)
	}
	h = append(h, s.options...)
	h[12], h[13] = byte(len(h)/4<<4), s.flags
	binary.BigEndian.PutUint16(h[14:], 64240)
	t := sealed(unix.IPPROTO_TCP, neighbour, testnet.RxEndpoint.IPv4, 16, append(h, s.data...))
	binary.BigEndian.PutUint16(t[16:], binary.BigEndian.Uint16(t[16:])+s.sum)
	return packet{src: neighbour, protocol: unix.IPPROTO_TCP, payload: t}.frame()
}

// open sends the first packets of connections.
func (l *lab) open(connections int, port uint16) (sent uint64) {
	l.Helper()
	l.know()
	for i := range connections {
		sent += l.send(1, (&peer{port: uint16(2000 + i), to: port}).segment(segment{flags: syn}))
	}
	return sent
}

// know tells the receiving side the peer's MAC address.
func (l *lab) know() {
	l.Helper()
	testnet.MustKnow(l, l.Rx, l.RxIndex, testnet.Endpoint{MAC: testnet.TxEndpoint.MAC, IPv4: neighbour})
}

// handshake sends a connection's first packet, and returns its peer when the answer has come, with
// TCP's time stamps if stamp is not 0.
func (l *lab) handshake(port uint16, stamp uint32) *peer {
	l.Helper()
	l.know()
	var fd int
	l.must(l.Tx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP)))
		return err
	}))
	defer unix.Close(fd)
	p := &peer{port: 3000, to: port, seq: 1000, stamps: stamp != 0}
	l.must(l.sender.Send(p.segment(segment{flags: syn, stamp: stamp})))
	for buf := make([]byte, 2000); ; {
		size, err := unix.Read(fd, buf)
		l.must(err)
		const tcp = 14 + 20
		if size >= tcp+20 && buf[14+9] == unix.IPPROTO_TCP && binary.BigEndian.Uint16(buf[tcp:]) == port && buf[tcp+13] == syn|ackFlag {
			p.seq, p.ack = p.seq+1, binary.BigEndian.Uint32(buf[tcp+4:])+1
			return p
		}
	}
}

type connectOptions struct {
	stamp  uint32
	buffer int
}

// A connection is one between a peer and a socket of the receiving side.
type connection struct {
	*peer
	fd int
}

func (l *lab) connect(o connectOptions) *connection {
	l.Helper()
	listener, port := l.listenTCP(8)
	if o.buffer != 0 {
		l.must(unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_RCVBUF, o.buffer))
	}
	c := &connection{peer: l.handshake(port, o.stamp)}
	l.must(l.sender.Send(c.segment(segment{stamp: o.stamp})))
	fd, _, err := unix.Accept(listener)
	l.must(err)
	l.Cleanup(func() { unix.Close(fd) })
	c.fd = fd
	testnet.WaitHandled(l)
	return c
}

// inConnection is a cause for which a segment within a connection suffices.
func inConnection(o connectOptions, s segment) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		return l.send(each, l.connect(o).segment(s))
	}
}

// toClosed is a cause for which a segment to a closed port suffices.
func toClosed(s segment) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		l.know()
		return l.send(each, (&peer{port: 3000, to: 9}).segment(s))
	}
}

// toListener is a cause for which a segment to a listener suffices.
func toListener(s segment, prepare func(fd int) error) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		l.know()
		fd, port := l.listenTCP(8)
		if prepare != nil {
			l.must(prepare(fd))
		}
		return l.send(each, (&peer{port: 3000, to: port}).segment(s))
	}
}

// withKey gives a socket a key for the peer: of TCP's signatures by MD5.
func withKey(fd int) error {
	key := unix.TCPMD5Sig{Keylen: 3, Key: [80]uint8{1, 2, 3}}
	key.Addr.Family = unix.AF_INET
	address := (*[net.IPv4len]byte)(unsafe.Pointer(&key.Addr.Data[2])) // after the port
	copy(address[:], neighbour)
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key)
}

var ofTCP = []cause{
	{name: "closed port of TCP", do: toClosed(segment{flags: syn}), found: "stack NO_SOCKET tcp_v4_rcv", advice: "nobody listens", culprit: "for tcp 192.0.2.2:9"},
	{name: "closed port of TCP, no first packet", do: toClosed(segment{}), found: "stack NO_SOCKET tcp_v4_rcv", advice: "nobody listens", culprit: "for tcp 192.0.2.2:9"},
	{name: "IPv6: closed port of TCP", v6: true, do: func(l *lab) uint64 {
		return l.send(each, testnet.TxToRx().TCPv6(testnet.Segment{SrcPort: 3000, DstPort: 9, SYN: true}))
	}, found: "stack NO_SOCKET tcp_v6_rcv", advice: "nobody listens", culprit: "for tcp [2001:db8::2]:9"},
	{name: "checksum of TCP", do: toClosed(segment{flags: syn, sum: 1}), found: "socket TCP_CSUM tcp_v4_rcv", advice: "checksum is wrong"},
	{name: "header of TCP too short", do: func(l *lab) uint64 {
		return sends(packet{protocol: unix.IPPROTO_TCP, payload: make([]byte, 20)})(l)
	}, found: "stack PKT_TOO_SMALL tcp_v4_rcv", advice: "shorter than"},
	{name: "least time to live of a socket", do: func(l *lab) uint64 {
		c := l.connect(connectOptions{})
		l.must(unix.SetsockoptInt(c.fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255))
		return l.send(each, c.segment(segment{}))
	}, found: "socket TCP_MINTTL tcp_v4_rcv", advice: "IP_MINTTL", needs: "TCP_MINTTL"},
	{name: "signature that the socket does not expect", do: toListener(segment{flags: syn, options: append([]byte{md5Signature, 18}, make([]byte, 16)...)}, nil), found: "socket TCP_MD5UNEXPECTED *", advice: "MD5"},
	{name: "signature that is missing", do: toListener(segment{flags: syn}, withKey), found: "socket TCP_MD5NOTFOUND *", advice: "MD5"},
	{name: "signature that is wrong", do: toListener(segment{flags: syn, options: append([]byte{md5Signature, 18}, make([]byte, 16)...)}, withKey), found: "socket TCP_MD5FAILURE *", advice: "MD5"},
	{name: "older stamp of TCP", do: func(l *lab) uint64 {
		c := l.connect(connectOptions{stamp: 1 << 20})
		return l.send(each, c.segment(segment{stamp: 1, data: []byte("x")}))
	}, found: "socket TCP_RFC7323_PAWS *", advice: "older timestamp"},
	{name: "reset elsewhere in the window", do: inConnection(connectOptions{}, segment{flags: rst, seq: 1000}), found: "socket TCP_RESET *|socket TCP_INVALID_SEQUENCE *", advice: "TCP refused"},
	{name: "outside of the window", do: inConnection(connectOptions{}, segment{seq: 1 << 29, data: []byte("x")}), found: "socket TCP_INVALID_SEQUENCE *|socket TCP_INVALID_END_SEQUENCE *", advice: "TCP refused"},
	{name: "acknowledges what was not sent", do: inConnection(connectOptions{}, segment{ack: 1 << 20, data: []byte("x")}), found: "socket TCP_ACK_UNSENT_DATA *", advice: "TCP refused"},
	{name: "first packet within a connection", do: inConnection(connectOptions{}, segment{flags: syn}), found: "socket TCP_INVALID_SYN *", advice: "TCP refused"},
	{name: "no flags", do: inConnection(connectOptions{}, segment{flags: psh, data: []byte("x")}), found: "socket TCP_FLAGS *", advice: "TCP refused"},
	{name: "window that is closed", do: func(l *lab) uint64 {
		c := l.connect(connectOptions{buffer: 4096})
		l.fillWindow(c)
		return l.send(each, c.segment(segment{data: make([]byte, 500)}))
	}, found: "socket TCP_ZEROWINDOW *|socket TCP_OVERWINDOW *|unclear TCP_ZEROWINDOW *|socket TCP_INVALID_END_SEQUENCE *", advice: "reads too slowly"},
	{name: "socket that is held", do: func(l *lab) (lost uint64) {
		c := l.connect(connectOptions{})
		l.must(unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
		l.must(unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1))
		l.holding(c, func() {
			l.begin()
			// With the same options the kernel would join them.
			lost = l.rose("netstat", "TcpExtTCPBacklogDrop", func() { l.send(5*each, c.segment(segment{}), c.segment(segment{options: []byte{1, 1, 1, 1}})) })
		})
		return lost
	}, found: "socket SOCKET_BACKLOG tcp_v4_rcv|unclear SOCKET_BACKLOG tcp_v4_rcv", advice: "holds the socket too long"},
	{name: "data twice", do: func(l *lab) uint64 {
		c := l.connect(connectOptions{})
		f := c.segment(segment{data: []byte("twice")})
		l.must(l.sender.Send(f))
		return l.send(each, f)
	}, found: "duplicate TCP_OLD_DATA *"},
}

// fillWindow sends until a connection takes no more, and then asks where it stands.
func (l *lab) fillWindow(c *connection) {
	l.Helper()
	first := c.seq
	for range 100 {
		l.must(l.sender.Send(c.segment(segment{data: make([]byte, 500)})))
		testnet.WaitHandled(l)
		waiting, err := unix.IoctlGetInt(c.fd, unix.TIOCINQ)
		l.must(err)
		if now := first + uint32(waiting); now == c.seq {
			return
		} else {
			c.seq = now
		}
	}
	l.Fatal("the window stays open")
}
