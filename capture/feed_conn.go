package capture

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// discardSize is how many bytes from the other end are read and thrown away at once, and
	// discardPause how long the next ones wait: a peer that sends all the time costs little.
	discardSize  = 16 << 10
	discardPause = 10 * time.Millisecond
	// finishPause is how often the end looks whether everything has arrived at a peer that has
	// closed its side already.
	finishPause = 10 * time.Millisecond
)

// A feedConn is a connection of a feed. What the peer sends is read and thrown away as long as the
// connection lasts: if bytes were unread at close(2), the kernel would send a reset and forget what
// it still had to send. The caller must begin to listen, and close.
type feedConn struct {
	net.Conn              // with TLS, where that is asked for
	socket   *countedConn // beneath TLS
	before   uint64       // bytes that TCP had counted as acknowledged before the first one of ours

	ending chan struct{} // closed at the end, when what the peer sends is read without pauses
	deaf   chan struct{} // closed when nothing more is read from the peer
	why    error         // io.EOF if the peer has closed its side; set before deaf is closed
}

// A countedConn counts the bytes that its socket has taken.
type countedConn struct {
	net.Conn
	taken atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.taken.Add(int64(n))
	return n, err
}

// newFeedConn wraps a socket to which nothing was written yet.
func newFeedConn(socket net.Conn) *feedConn {
	c := &feedConn{socket: &countedConn{Conn: socket}, ending: make(chan struct{}), deaf: make(chan struct{})}
	c.Conn = c.socket
	if info := c.info(); info != nil {
		c.before = info.Bytes_acked
	}
	return c
}

// isSecure tells whether there is TLS.
func (c *feedConn) isSecure() bool { return c.Conn != c.socket }

// secure lets everything go through TLS, after its handshake.
func (c *feedConn) secure(ctx context.Context, through *tls.Conn) error {
	c.Conn = through
	return through.HandshakeContext(ctx)
}

// listen begins to read what the peer sends.
func (c *feedConn) listen() {
	go func() {
		defer close(c.deaf)
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
	}()
}

// taken is how many bytes the kernel has taken to send, those of TLS included.
func (c *feedConn) taken() int64 { return c.socket.taken.Load() }

// arrived is how many of these bytes have arrived: the kernel of the other end has acknowledged
// them. It is still known after a reset, though the kernel then has forgotten the rest. Any
// goroutine may call it until close.
func (c *feedConn) arrived() int64 {
	if _, ok := c.socket.Conn.(*net.TCPConn); !ok {
		return c.taken() // a local socket hands bytes to the other end's queue at once
	}
	info := c.info()
	if info == nil {
		return 0
	}
	return int64(info.Bytes_acked - c.before) // the end counts as one byte more
}

// info is what the kernel knows of a TCP connection; nil = nothing.
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

// isGone tells whether a peer that has closed its side takes nothing any more, either. TCP does not
// tell that: there, such a peer resets the connection when something is sent to it.
func (c *feedConn) isGone() (gone bool) {
	local, ok := c.socket.Conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n == 1 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return gone || err != nil
}

// finish tells the peer that nothing more comes, and waits until it has closed its side, too, or
// until the deadline. For one that had closed it before, finish waits until everything has arrived.
func (c *feedConn) finish(deadline time.Time) error {
	close(c.ending)
	// TLS sets deadlines of its own when it says that this is the end.
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

// isReset tells whether nothing more arrives on a TCP connection.
func (c *feedConn) isReset() bool {
	info := c.info()
	return info == nil || info.State == unix.BPF_TCP_CLOSE
}

// close closes the connection. If something has not arrived, it resets the connection: that counts
// as not taken, and must not arrive later, as if the stream had been complete.
func (c *feedConn) close() {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok && c.arrived() < c.taken() {
		tcp.SetLinger(0)
	}
	c.socket.Close()
	<-c.deaf
}
