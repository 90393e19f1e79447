package sflow

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
	// maxDatagram is the largest datagram in bytes: sFlow's specification proposes this size, and
	// every collector has room for it. minDatagram is a size that no path fragments.
	maxDatagram, minDatagram = 1400, 512
	ipv4Headers, ipv6Headers = 20 + 8, 40 + 8 // with UDP's header

	// A collector's address is looked up again after a minute, or when a datagram was refused, but
	// at most once per second.
	lookUpInterval = time.Minute
	lookUpPause    = time.Second
	lookUpLimit    = 10 * time.Second
)

// errBounced is the error for a datagram that the collector's host refused by ICMP.
var errBounced = errors.New("the collector's host refuses them: no process listens on that port")

// A collector is the destination of datagrams. Its socket is connected, so that the kernel reports
// datagrams that were refused.
type collector struct {
	address string // HOST:PORT
	longest int    // the largest datagram in bytes
	conn    *net.UDPConn
	raw     syscall.RawConn

	bytes []byte // the datagram for write
	err   error  // the error of write
	write func(fd uintptr) bool

	refused chan struct{}
	next    chan *net.UDPConn // a socket for a new address
}

func openCollector(address string) (*collector, error) {
	c := &collector{address: address, refused: make(chan struct{}, 1), next: make(chan *net.UDPConn, 1)}
	c.write = func(fd uintptr) bool {
		_, c.err = unix.Write(int(fd), c.bytes)
		return true // do not wait, even if the socket has no room
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

// use replaces the socket.
func (c *collector) use(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	c.conn, c.raw = conn, raw
	c.measure()
	return nil
}

// local returns the source address of datagrams.
func (c *collector) local() netip.Addr { return address(c.conn.LocalAddr()).Addr() }

func address(a net.Addr) netip.AddrPort {
	p := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// measure reads the path's MTU from the kernel, and computes the largest datagram from it.
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

// send sends a datagram unless the socket has no room for it. The error is about this datagram;
// bounced is the number of earlier ones that the collector's host refused.
func (c *collector) send(b []byte) (bounced uint64, err error) {
	c.bytes = b
	for range 2 {
		if err := c.raw.Write(c.write); err != nil {
			return bounced, err
		}
		if !errors.Is(c.err, unix.ECONNREFUSED) {
			break
		}
		bounced++ // the error is about an earlier datagram: this one was not sent
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

// switchAddress switches to the new address of watchAddress, if there is one.
func (c *collector) switchAddress() {
	select {
	case conn := <-c.next:
		before := c.conn
		if c.use(conn) == nil {
			before.Close()
		}
	default:
	}
}

// watchAddress looks up the collector's address repeatedly until ctx is done.
func (c *collector) watchAddress(ctx context.Context) {
	local, remote := address(c.conn.LocalAddr()).Addr(), address(c.conn.RemoteAddr())
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookUpInterval):
		case <-c.refused:
		}
		limited, cancel := context.WithTimeout(ctx, lookUpLimit)
		conn, err := c.dial(limited)
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

// close closes the sockets, after watchAddress has returned.
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
