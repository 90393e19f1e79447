package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Finder asks the kernel by netlink (sock_diag(7)). It opens its socket before the process gives
// up its privileges, and needs none itself. It finds sockets of the network namespace in which it
// was made. Any goroutine may use it.
type Finder struct {
	mu       sync.Mutex
	socket   int
	sequence uint32
}

// New returns a Finder. The error says that this kernel does not tell whose sockets are whose. l is
// any socket that listens by TCP in the same network namespace, on which the kernel is tried.
func New(l net.Listener) (*Finder, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	f := &Finder{socket: socket}
	// The kernel answers at once; a message that is lost must not make it wait for ever.
	patience := unix.NsecToTimeval(int64(time.Second))
	err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience)
	if own := addressOf(l.Addr()); err == nil && own.IsValid() {
		_, err = f.find(own, netip.AddrPortFrom(unspecified(own.Addr()), 0))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("ask the kernel whose sockets are whose: %w", err)
	}
	return f, nil
}

// Close releases the socket, after which nobody is found. It does nothing with a nil Finder, and
// may be called again.
func (f *Finder) Close() error {
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

// ErrUnknown is the kind of error that nobody has the other end of a connection open.
var ErrUnknown = errors.New("no process has the socket at the other end open")

// User returns the id of the user who has opened the other end of a connection. Both ends must be
// in the Finder's network namespace.
func (f *Finder) User(conn net.Conn) (uid int, err error) {
	near, far := addressOf(conn.LocalAddr()), addressOf(conn.RemoteAddr())
	if !near.IsValid() || !far.IsValid() {
		return 0, errors.New("it is no TCP connection")
	}
	s, err := f.find(far, near)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, ErrUnknown
	case err != nil:
		return 0, fmt.Errorf("ask the kernel whose socket %v is: %w", far, err)
	// Of a socket that its process has closed, the kernel may say that it is root's. A listener is
	// what it answers with where there is no connection.
	case s.inode == 0 || s.state == tcpListen:
		return 0, ErrUnknown
	}
	return int(s.uid), nil
}

// Name is the same for all connections of one peer. Over loopback, where every user may use any
// address, a peer is a user, as far as that is known; elsewhere it is a network. It is "" for
// sockets in the file system. A nil Finder knows no users.
func (f *Finder) Name(conn net.Conn) string {
	network := Network(conn.RemoteAddr())
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

// addressOf is the address of one end of a TCP connection, that of an IPv4 connection as IPv4.
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
