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
	// discardSize is how many bytes from the peer are read and discarded at once, and discardPause
	// is the pause before the next read, so that a peer that sends all the time costs little.
	discardSize  = 16 << 10
	discardPause = 10 * time.Millisecond
	// finishPause is how often finish checks whether everything has arrived at a peer that has
	// already closed its side.
	finishPause = 10 * time.Millisecond
)

// A feedConn is a connection of a feed. What the peer sends is read and discarded while the
// connection lasts: if bytes were unread at close(2), the kernel would send a reset and drop what
// it still had to send. The caller must call listen and close.
type feedConn struct {
	net.Conn              // with TLS if requested
	socket   *countedConn // beneath TLS
	before   uint64       // bytes that TCP counted as acknowledged before our first byte

	ending chan struct{} // closed at the end, when what the peer sends is read without pauses
	deaf   chan struct{} // closed when nothing more is read from the peer
	why    error         // io.EOF if the peer has closed its side; set before deaf is closed
	gone   chan struct{} // closed after deaf, when nothing can be sent any more
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

// newFeedConn wraps a socket. Nothing may have been written to it yet.
func newFeedConn(socket net.Conn) *feedConn {
	c := &feedConn{socket: &countedConn{Conn: socket}, ending: make(chan struct{}), deaf: make(chan struct{}), gone: make(chan struct{})}
	c.Conn = c.socket
	if info := c.info(); info != nil {
		c.before = info.Bytes_acked
	}
	return c
}

// isSecure reports whether there is TLS.
func (c *feedConn) isSecure() bool { return c.Conn != c.socket }

// secure does the handshake; after it, everything goes through TLS.
func (c *feedConn) secure(ctx context.Context, through *tls.Conn) error {
	c.Conn = through
	return through.HandshakeContext(ctx)
}

// listen starts to read what the peer sends. A peer that has closed only its side still receives,
// so its connection is watched until it is reset or closed.
func (c *feedConn) listen() {
	go func() {
		defer close(c.gone)
		c.discard()
		close(c.deaf)
		if errors.Is(c.why, io.EOF) {
			c.awaitHangup()
		}
	}()
}

// discard reads what the peer sends until it has closed its side or the connection has failed.
func (c *feedConn) discard() {
	buf := make([]byte, discardSize)
	for {
		if _, c.why = c.Read(buf); c.why != nil {
			return
		}
		select {
		case <-c.ending:
		case <-time.After(discardPause):
		}
	}
}

// awaitHangup waits until the kernel says that nothing can be sent any more: after a reset, after
// a local peer has closed its socket, or after both sides are closed. It returns early when the
// socket's deadline passes or the socket is closed.
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

// taken is how many bytes the kernel has accepted for sending, including TLS's own.
func (c *feedConn) taken() int64 { return c.socket.taken.Load() }

// arrived is how many of these bytes the peer's kernel has acknowledged. The number is known even
// after a reset, which drops the rest. Any goroutine may call it until close.
func (c *feedConn) arrived() int64 {
	if _, ok := c.socket.Conn.(*net.TCPConn); !ok {
		return c.taken() // a local socket hands bytes to the other end's queue at once
	}
	info := c.info()
	if info == nil {
		return 0
	}
	return int64(info.Bytes_acked - c.before) // the FIN counts as one more byte
}

// info is what the kernel knows about a TCP connection; nil = nothing.
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

// finish tells the peer that nothing more comes, and waits until the peer has closed its side, too,
// or until the deadline. If the peer closed its side earlier, finish waits until everything has
// arrived.
func (c *feedConn) finish(deadline time.Time) error {
	close(c.ending)
	// CloseWrite of TLS sets its own deadline, so this one is enforced by a timer.
	defer time.AfterFunc(time.Until(deadline), func() { c.socket.SetDeadline(time.Unix(1, 0)) }).Stop()
	if through, ok := c.Conn.(*tls.Conn); ok {
		through.CloseWrite()
	}
	half, ok := c.socket.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	half.CloseWrite()
	<-c.deaf
	if !errors.Is(c.why, io.EOF) {
		return c.why
	}
	for c.arrived() < c.taken() && !c.isReset() && time.Now().Before(deadline) {
		time.Sleep(finishPause)
	}
	return nil
}

// isReset reports whether nothing more arrives on a TCP connection.
func (c *feedConn) isReset() bool {
	info := c.info()
	return info == nil || info.State == unix.BPF_TCP_CLOSE
}

// close closes the connection. If bytes have not arrived, it resets the connection: they count as
// not taken, so they must not arrive later and make the stream look complete.
func (c *feedConn) close() {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok && c.arrived() < c.taken() {
		tcp.SetLinger(0)
	}
	c.socket.Close()
	<-c.gone
}
