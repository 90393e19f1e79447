package machine

import (
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
