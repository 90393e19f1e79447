package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// discardSize is how many bytes from the peer are read and discarded at once. discardPause is
	// the pause before the next read, so that a peer that sends continuously costs little.
	discardSize  = 16 << 10
	discardPause = 10 * time.Millisecond
	// finishPause is the interval at which finish checks whether all bytes have arrived at a peer
	// that has already closed its side.
	finishPause = 10 * time.Millisecond
)

// A feedConn is a connection of a feed. Bytes from the peer are read and discarded while the
// connection lasts: if bytes were unread at close(2), the kernel would send a reset and drop its
// unsent bytes. The caller must call listen and close.
type feedConn struct {
	net.Conn              // with TLS if requested
	socket   *countedConn // beneath TLS
	before   uint64       // bytes that TCP counted as acknowledged before our first byte

	ending    chan struct{} // closed at the end, when bytes from the peer are read without pauses
	readEnded chan struct{} // closed when reading from the peer has ended
	readErr   error         // why: io.EOF if the peer has closed its side; set before readEnded is closed
	gone      chan struct{} // closed after readEnded, when sending is no longer possible
}

// A countedConn counts the bytes that its socket has accepted.
type countedConn struct {
	net.Conn
	taken atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.taken.Add(int64(n))
	return n, err
}

// newFeedConn wraps a socket to which no bytes were written yet.
func newFeedConn(socket net.Conn) *feedConn {
	c := &feedConn{socket: &countedConn{Conn: socket}, ending: make(chan struct{}), readEnded: make(chan struct{}), gone: make(chan struct{})}
	c.Conn = c.socket
	if info := c.info(); info != nil {
		c.before = info.Bytes_acked
	}
	return c
}

func (c *feedConn) isSecure() bool { return c.Conn != c.socket }

// secure does the TLS handshake; later reads and writes use TLS.
func (c *feedConn) secure(ctx context.Context, through *tls.Conn) error {
	c.Conn = through
	return through.HandshakeContext(ctx)
}

// listen starts to read and discard bytes from the peer, and closes gone when the connection is
// reset or closed on both sides. A peer that has closed only its own side still receives.
func (c *feedConn) listen() {
	go func() {
		defer close(c.gone)
		c.discard()
		close(c.readEnded)
		if errors.Is(c.readErr, io.EOF) {
			c.awaitHangup()
		}
	}()
}

// discard reads bytes from the peer until the peer has closed its side or the connection has
// failed.
func (c *feedConn) discard() {
	buf := make([]byte, discardSize)
	for {
		if _, c.readErr = c.Read(buf); c.readErr != nil {
			return
		}
		select {
		case <-c.ending:
		case <-time.After(discardPause):
		}
	}
}

// awaitHangup waits until the kernel reports POLLERR or POLLHUP: after a reset, after a local peer
// has closed its socket, or after both sides are closed. It returns early when the socket's
// deadline passes or the socket is closed.
func (c *feedConn) awaitHangup() {
	socket, ok := c.socket.Conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
}

// taken returns how many bytes the kernel has accepted for sending, including those that TLS adds.
func (c *feedConn) taken() int64 { return c.socket.taken.Load() }

// arrived returns how many of these bytes the peer's kernel has acknowledged. The number is correct
// even after a reset, which drops the other bytes. Any goroutine may call it until close.
func (c *feedConn) arrived() int64 {
	if _, ok := c.socket.Conn.(*net.TCPConn); !ok {
		return c.taken() // a local socket adds bytes to the other end's queue at once
	}
	info := c.info()
	if info == nil {
		return 0
	}
	return int64(info.Bytes_acked - c.before) // the FIN counts as one more byte
}

// info returns the kernel's TCP_INFO of the connection; nil if it is not TCP or was closed.
func (c *feedConn) info() (info *unix.TCPInfo) {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) {
				if got, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
					info = got
				}
			})
		}
	}
	return info
}

// finish closes our side, and waits until the peer has closed its side, too, or until the deadline.
// If the peer closed its side earlier, finish waits until all bytes have arrived.
func (c *feedConn) finish(deadline time.Time) error {
	close(c.ending)
	// CloseWrite of TLS sets its own deadline, so a timer enforces this one.
	defer time.AfterFunc(time.Until(deadline), func() { c.socket.SetDeadline(time.Unix(1, 0)) }).Stop()
	if through, ok := c.Conn.(*tls.Conn); ok {
		through.CloseWrite()
	}
	half, ok := c.socket.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	half.CloseWrite()
	<-c.readEnded
	if !errors.Is(c.readErr, io.EOF) {
		return c.readErr
	}
	for c.arrived() < c.taken() && !c.isReset() && time.Now().Before(deadline) {
		time.Sleep(finishPause)
	}
	return nil
}

// isReset reports whether a TCP connection is closed, so that no more bytes arrive.
func (c *feedConn) isReset() bool {
	info := c.info()
	return info == nil || info.State == unix.BPF_TCP_CLOSE
}

// close closes the connection. If bytes have not arrived, it resets the connection: their packets
// count as not taken, so they must not arrive later.
func (c *feedConn) close() {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok && c.arrived() < c.taken() {
		tcp.SetLinger(0)
	}
	c.socket.Close()
	<-c.gone
}
