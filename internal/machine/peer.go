package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A PeerFinder looks up the owners of TCP sockets in the kernel, by netlink (sock_diag(7)). It
// opens its socket before the process drops its privileges; look-ups need no privileges. It finds
// sockets of the network namespace in which it was made. It is safe for concurrent use.
type PeerFinder struct {
	mu       sync.Mutex
	socket   int
	sequence uint32
}

// NewPeerFinder returns a PeerFinder. It returns an error if this kernel does not report the owners
// of sockets. l is any TCP listener in the same network namespace, which is looked up as a trial.
func NewPeerFinder(l net.Listener) (*PeerFinder, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	f := &PeerFinder{socket: socket}
	// The kernel replies at once. The time limit ends the wait if the message was lost.
	timeout := unix.NsecToTimeval(int64(time.Second))
	err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	if own := addressOf(l.Addr()); err == nil && own.IsValid() {
		_, err = f.find(own, netip.AddrPortFrom(unspecified(own.Addr()), 0))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("ask the kernel whose sockets are whose: %w", err)
	}
	return f, nil
}

// Close releases the socket; later look-ups fail. It may be called again, and on a nil PeerFinder.
func (f *PeerFinder) Close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	socket := f.socket
	f.socket = -1
	if socket < 0 {
		return nil
	}
	return unix.Close(socket)
}

// ErrUnknownPeer is the kind of error for a connection whose other end no process has open.
var ErrUnknownPeer = errors.New("no process has the socket at the other end open")

// User returns the id of the user who owns the other end of a connection. Both ends must be in the
// PeerFinder's network namespace.
func (f *PeerFinder) User(conn net.Conn) (uid int, err error) {
	near, far := addressOf(conn.LocalAddr()), addressOf(conn.RemoteAddr())
	if !near.IsValid() || !far.IsValid() {
		return 0, errors.New("it is no TCP connection")
	}
	s, err := f.find(far, near)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, ErrUnknownPeer
	case err != nil:
		return 0, fmt.Errorf("ask the kernel whose socket %v is: %w", far, err)
	// The kernel may report a socket that its process has closed as root's. If the connection does
	// not exist, the kernel returns a listener on the port.
	case s.inode == 0 || s.state == tcpListen:
		return 0, ErrUnknownPeer
	}
	return int(s.uid), nil
}

// Name returns the same text for all connections of one peer. Over loopback, where every user may
// use any address, a peer is a user if the PeerFinder can determine it; otherwise it is a network.
// Name returns "" for sockets in the file system. A nil PeerFinder identifies no users.
func (f *PeerFinder) Name(conn net.Conn) string {
	network := PeerNetwork(conn.RemoteAddr())
	if !network.IsValid() {
		return ""
	}
	if f != nil && addressOf(conn.RemoteAddr()).Addr().IsLoopback() {
		if uid, err := f.User(conn); err == nil {
			return fmt.Sprintf("user %d", uid)
		}
	}
	return network.String()
}

// addressOf returns the address of one end of a TCP connection, for an IPv4 connection as IPv4.
func addressOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// PeerNetwork returns the prefix that represents an address: for IPv6 its /64, which one host can
// have to itself, and for IPv4 the address alone. It is invalid if a is not a TCP address.
func PeerNetwork(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// The layout of the messages by linux/inet_diag.h, after the netlink header. Numbers are in the
// machine's byte order, except ports and addresses.
const (
	requestSize = 56 // struct inet_diag_req_v2
	requestID   = 8  // its struct inet_diag_sockid
	answerSize  = 72 // struct inet_diag_msg
	answerState = 1
	answerID    = 4
	answerUID   = 64
	answerInode = 68

	idNear, idFar       = 4, 20 // addresses of struct inet_diag_sockid, which begins with the ports
	idCookie            = 40
	anyCookie           = 0xff // in each byte
	allStates           = 0xffffffff
	byFamily            = 20 // SOCK_DIAG_BY_FAMILY of linux/sock_diag.h
	tcpListen     uint8 = 10 // TCP_LISTEN of linux/tcp_states.h
)

var native = binary.NativeEndian

// A socket is the kernel's information about a socket.
type socket struct {
	state      uint8
	uid, inode uint32 // inode is 0 when no process has it open
}

// find looks up the socket with these ends. If there is no such socket, the error is ENOENT.
// netlink.SocketGet is not suitable: it lists sockets, for which the kernel compares only the
// ports, and these may be the ports of another user's connection.
func (f *PeerFinder) find(near, far netip.AddrPort) (*socket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sequence++
	if _, err := unix.Write(f.socket, request(f.sequence, near, far)); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(f.socket, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n < unix.NLMSG_HDRLEN || native.Uint32(buf[8:]) != f.sequence: // the answer to an earlier request that timed out
			continue
		}
		return answer(native.Uint16(buf[4:]), buf[unix.NLMSG_HDRLEN:n], near.Port())
	}
}

// request returns a request for a TCP socket.
func request(sequence uint32, near, far netip.AddrPort) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+requestSize)
	native.PutUint32(b, uint32(len(b)))
	native.PutUint16(b[4:], byFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	native.PutUint32(b[8:], sequence)
	body := b[unix.NLMSG_HDRLEN:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	if near.Addr().Is6() {
		body[0] = unix.AF_INET6
	}
	native.PutUint32(body[4:], allStates)
	id := body[requestID:]
	binary.BigEndian.PutUint16(id, near.Port())
	binary.BigEndian.PutUint16(id[2:], far.Port())
	copy(id[idNear:], near.Addr().AsSlice())
	copy(id[idFar:], far.Addr().AsSlice())
	for i := range 8 {
		id[idCookie+i] = anyCookie
	}
	return b
}

// answer parses the kernel's answer about the socket with this port.
func answer(kind uint16, body []byte, port uint16) (*socket, error) {
	switch {
	case kind == unix.NLMSG_ERROR && len(body) >= 4:
		return nil, unix.Errno(-int32(native.Uint32(body)))
	case kind != byFamily || len(body) < answerSize:
		return nil, fmt.Errorf("unknown answer of type %d, with %d bytes", kind, len(body))
	case binary.BigEndian.Uint16(body[answerID:]) != port:
		return nil, unix.ENOENT
	}
	return &socket{state: body[answerState], uid: native.Uint32(body[answerUID:]), inode: native.Uint32(body[answerInode:])}, nil
}
