package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDatagram is how many bytes a datagram has at most: what sFlow's specification proposes,
	// and every collector has room for. minDatagram is at least what any path takes in one piece.
	maxDatagram, minDatagram = 1400, 512
	ipv4Headers, ipv6Headers = 20 + 8, 40 + 8 // with UDP's

	// A collector's address is looked up again after a minute, or when a datagram was refused, but
	// not more often than once in a second.
	lookUpInterval = time.Minute
	lookUpPause    = time.Second
	lookUpLimit    = 10 * time.Second
)

// errBounced says that a datagram came back.
var errBounced = errors.New("the collector's host refuses them: nobody listens there")

// A collector is where datagrams go: by a connected socket, so that the kernel tells of those that
// were refused.
type collector struct {
	address string // HOST:PORT
	longest int    // bytes of a datagram
	conn    *net.UDPConn
	raw     syscall.RawConn

	bytes []byte // that write is to send
	err   error  // of write
	write func(fd uintptr) bool

	refused chan struct{}
	next    chan *net.UDPConn // to another address
}

func openCollector(address string) (*collector, error) {
	c := &collector{address: address, refused: make(chan struct{}, 1), next: make(chan *net.UDPConn, 1)}
	c.write = func(fd uintptr) bool {
		_, c.err = unix.Write(int(fd), c.bytes)
		return true // also when there is no room for it: nobody waits
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpLimit)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach the collector %s: %w", address, err)
	}
	if err := c.use(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the collector %s: %w", address, err), conn.Close())
	}
	return c, nil
}

func (c *collector) dial(ctx context.Context) (*net.UDPConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", c.address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// use sends through another socket from now on.
func (c *collector) use(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	c.conn, c.raw = conn, raw
	c.measure()
	return nil
}

// local is the address that datagrams are sent from.
func (c *collector) local() netip.Addr { return address(c.conn.LocalAddr()).Addr() }

func address(a net.Addr) netip.AddrPort {
	p := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// measure asks how long a datagram may be on its path.
func (c *collector) measure() {
	level, option, headers := unix.IPPROTO_IP, unix.IP_MTU, ipv4Headers
	if c.local().Is6() {
		level, option, headers = unix.IPPROTO_IPV6, unix.IPV6_MTU, ipv6Headers
	}
	c.longest = maxDatagram
	c.raw.Control(func(fd uintptr) {
		if mtu, err := unix.GetsockoptInt(int(fd), level, option); err == nil {
			c.longest = max(min(mtu-headers, maxDatagram), minDatagram)
		}
	})
}

// send sends a datagram unless the socket has no room for it. The error is that of this datagram;
// bounced is how many earlier ones have turned out to be refused.
func (c *collector) send(b []byte) (bounced uint64, err error) {
	c.bytes = b
	for range 2 {
		if err := c.raw.Write(c.write); err != nil {
			return bounced, err
		}
		if !errors.Is(c.err, unix.ECONNREFUSED) {
			break
		}
		bounced++ // of one before: this one was not tried
	}
	if bounced > 0 || c.err != nil {
		select {
		case c.refused <- struct{}{}:
		default:
		}
	}
	if errors.Is(c.err, unix.EMSGSIZE) {
		c.measure()
	}
	return bounced, os.NewSyscallError("sendto", c.err)
}

// turn sends to the address that follow has found, if there is a new one.
func (c *collector) turn() {
	select {
	case conn := <-c.next:
		before := c.conn
		if c.use(conn) == nil {
			before.Close()
		}
	default:
	}
}

// follow looks the collector's address up again and again, until ctx is done.
func (c *collector) follow(ctx context.Context) {
	local, remote := address(c.conn.LocalAddr()).Addr(), address(c.conn.RemoteAddr())
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookUpInterval):
		case <-c.refused:
		}
		looking, cancel := context.WithTimeout(ctx, lookUpLimit)
		conn, err := c.dial(looking)
		cancel()
		if err == nil {
			newLocal, newRemote := address(conn.LocalAddr()).Addr(), address(conn.RemoteAddr())
			if newLocal == local && newRemote == remote {
				conn.Close()
			} else {
				local, remote = newLocal, newRemote
				select {
				case c.next <- conn:
				case <-ctx.Done():
					conn.Close()
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookUpPause):
		}
	}
}

// close closes the sockets, after follow has returned.
func (c *collector) close() error {
	select {
	case conn := <-c.next:
		conn.Close()
	default:
	}
	if err := c.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
