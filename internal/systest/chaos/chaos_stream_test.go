package chaos_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// TestChaosStreams is TestChaos with a capture that sends its packets to a reader, whose side is
// disturbed as well. Only packets that have reached the reader's kernel count as captured.
func TestChaosStreams(t *testing.T) {
	t.Parallel()
	runChaos(t, chaosStreams)
}

var chaosStreams = []chaosEnding{
	{name: "reader sends all the time", stream: &streamReader{sends: true}, end: signals(syscall.SIGINT)},
	{name: "reader has closed its side and is slow", stream: &streamReader{halfCloses: true, slow: true}, end: hurried(signals(syscall.SIGTERM))},
	{name: "reader sends and is slow", stream: &streamReader{sends: true, slow: true}, end: hurried(signals(syscall.SIGINT))},
	{name: "reader resets, another one comes", stream: &streamReader{}, end: func(c *chaos) {
		c.crashReader()
		testnet.WaitFor(c.t, "another connection", func() bool { return strings.Contains(c.capture.Stderr(), ": reconnected; ") })
		c.burst(300)
		c.settle()
		signals(syscall.SIGINT)(c)
	}},
	{name: "reader stops reading and resets, nobody comes", stream: &streamReader{sends: true}, end: func(c *chaos) {
		c.reader.stops.Store(true)
		c.burst(5000)
		c.crashReader()
		c.reader.listener.Close()
		c.burst(300)
		c.settle()
		signals(syscall.SIGINT)(c)
	}},
	{name: "reader resets during the end", stream: &streamReader{}, end: func(c *chaos) {
		c.reader.stops.Store(true)
		c.burst(5000)
		c.settle()
		signals(syscall.SIGINT)(c)
		testnet.WaitFor(c.t, "the capture to detach", func() bool { return systest.Attached(c.t, c.pair) == "" })
		c.reader.listener.Close()
		c.reader.crash()
	}},
}

// hurried ends a capture, and from then on its slow reader reads at full speed: the capture waits
// ten seconds for it, and on a busy machine a slow reader needs longer for all sent packets.
func hurried(end func(c *chaos)) func(c *chaos) {
	return func(c *chaos) {
		end(c)
		c.reader.hurries.Store(true)
	}
}

// crashReader makes the reader crash, and waits until the capture has reported it.
func (c *chaos) crashReader() {
	c.t.Helper()
	c.reader.crash()
	c.burst(100)
	testnet.WaitFor(c.t, "the notice of the end", func() bool { return strings.Contains(c.capture.Stderr(), ": the connection has ended, ") })
}

// A streamReader is the other end of -w tcp://, with the packets that have arrived there.
type streamReader struct {
	sends, halfCloses, slow bool // its behaviour

	t        *testing.T
	listener *net.TCPListener
	secure   *tls.Config // nil = no TLS
	flags    []string    // of the capture

	stops    atomic.Bool // it stops reading
	hurries  atomic.Bool // it reads at full speed from now on
	crashes  atomic.Bool // it must crash
	crashed  chan struct{}
	serving  sync.WaitGroup
	arrived  atomic.Uint64 // packets
	complete atomic.Bool   // the last stream has ended regularly
}

// listenForStream starts a reader with this behaviour.
func (c *chaos) listenForStream(like *streamReader) *streamReader {
	c.t.Helper()
	r := &streamReader{sends: like.sends, halfCloses: like.halfCloses, slow: like.slow, t: c.t, crashed: make(chan struct{})}
	c.must(c.pair.Rx.Do(func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			r.listener = l.(*net.TCPListener)
		}
		return err
	}))
	c.t.Cleanup(func() { r.listener.Close() })
	if c.random.IntN(2) == 0 {
		dir := c.t.TempDir()
		systest.MakeCertificates(c.t, dir)
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
		c.must(err)
		r.secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
		r.flags = []string{"--tls-ca", filepath.Join(dir, "ca.pem")}
	}
	r.serving.Go(r.accept)
	return r
}

func (r *streamReader) url() string { return "tcp://" + r.listener.Addr().String() }

func (r *streamReader) accept() {
	for {
		socket, err := r.listener.AcceptTCP()
		if err != nil {
			return
		}
		r.serving.Go(func() { r.serve(socket) })
	}
}

func (r *streamReader) serve(socket *net.TCPConn) {
	defer socket.Close()
	conn := net.Conn(socket)
	if r.secure != nil {
		through := tls.Server(socket, r.secure)
		if err := through.Handshake(); err != nil { // the capture has ended meanwhile
			return
		}
		conn = through
	}
	if r.sends {
		go func() {
			for {
				if _, err := conn.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		}()
	}
	if r.halfCloses {
		if through, ok := conn.(*tls.Conn); ok {
			through.CloseWrite()
		}
		socket.CloseWrite()
	}
	var blocks streamBlocks
	defer func() { r.arrived.Add(blocks.packets) }()
	buf := make([]byte, 16<<10)
	for {
		if r.crashes.Load() && r.crashes.CompareAndSwap(true, false) {
			blocks.add(r.t, r.last(socket, conn))
			socket.SetLinger(0)
			socket.Close()
			close(r.crashed)
			return
		}
		if r.stops.Load() {
			time.Sleep(time.Millisecond)
			continue
		}
		socket.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // to check regularly what to do
		n, err := conn.Read(buf)
		blocks.add(r.t, buf[:n])
		if r.slow && !r.hurries.Load() {
			time.Sleep(time.Millisecond)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			r.complete.Store(err == io.EOF)
			return
		}
	}
}

// last returns all bytes that have arrived and were not read, lets the kernel acknowledge them, and
// ensures that no bytes arrive afterwards.
func (r *streamReader) last(socket *net.TCPConn, conn net.Conn) (all []byte) {
	raw, err := socket.SyscallConn()
	if err != nil {
		r.t.Error(err)
		return nil
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	raw.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop}),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1))
	})
	if err != nil {
		r.t.Error(err)
	}
	buf := make([]byte, 64<<10)
	for {
		left := 0
		raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		socket.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // TLS may have buffered more than the socket
		n, failed := conn.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil || failed != nil && (left == 0 || !errors.Is(failed, os.ErrDeadlineExceeded)) {
			return all
		}
	}
}

// crash resets the reader's connection.
func (r *streamReader) crash() {
	r.t.Helper()
	r.crashes.Store(true)
	select {
	case <-r.crashed:
	case <-time.After(testnet.Patience):
		r.t.Fatal("the reader has no connection")
	}
	r.stops.Store(false)
}

// check compares the arrived packets with the account.
func (r *streamReader) check(s systest.Summary) {
	r.t.Helper()
	r.listener.Close()
	r.serving.Wait()
	arrived, crashed := r.arrived.Load(), false
	select {
	case <-r.crashed:
		crashed = true
	default:
	}
	r.t.Logf("TLS %v: %d packets arrived, %d captured, %d not taken", r.secure != nil, arrived, s.Captured, s.NotTaken)
	// If a connection is reset, the last batch of TLS counts as not taken, and so do bytes that the
	// reader's kernel has acknowledged only with the reset.
	slack := uint64(0)
	if crashed {
		slack = 2 * 64 << 10 / 200
	} else if !r.complete.Load() {
		r.t.Error("the stream did not end as it should")
	}
	if s.Captured > arrived || s.Captured+slack < arrived {
		r.t.Errorf("%d packets have arrived, summary %+v", arrived, s)
	}
}

// streamBlocks counts the packets of a stream that arrives in pieces.
type streamBlocks struct {
	rest    []byte
	packets uint64
}

func (b *streamBlocks) add(t *testing.T, piece []byte) {
	b.rest = append(b.rest, piece...)
	for len(b.rest) >= pcapng.HeaderSize {
		n, _, err := pcapng.BlockLength(b.rest, false)
		if err != nil {
			t.Error(err)
			b.rest = nil
			return
		}
		if n > len(b.rest) {
			return
		}
		if block, err := pcapng.ParseBlock(b.rest[:n], false); err == nil && block.Type == pcapng.TypePacket {
			b.packets++
		}
		b.rest = b.rest[n:]
	}
}
