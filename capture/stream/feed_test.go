package stream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// must ends the test if there is an error.
var must = testnet.Must

// feedTest skips a test that does not depend on the kernel.
func feedTest(t *testing.T) {
	t.Helper()
}

// groupSize is how many packets the tests send at a time, as Run does.
const groupSize = 32

// describeTwo describes a session with two sources.
func describeTwo() capture.Description {
	return capture.Description{
		Sources: []capture.Source{{Name: "a"}, {Name: "b"}},
		Options: capture.Options{SnapLen: capture.MaxSnapLen, Sample: 1, Buffer: capture.DefaultBuffer},
	}
}

// A testServer is a Server on a loopback port, with the packets sent through it.
type testServer struct {
	*Server
	address string
	mu      sync.Mutex // for sent, which clients that join read
	sent    capture.Accounts
	next    uint64
	group   []capture.Packet
	written atomic.Uint64 // packets
}

// listen listens on a port of loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// withCertificate is a TLS configuration for the listening side, and anyCertificate one for the
// connecting side.
func withCertificate() *tls.Config {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	return &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS13}
}

var anyCertificate = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}

// anyPeer is an Options.Peer without a limit per peer.
func anyPeer(net.Conn) (string, bool) { return "", true }

// newTestServer begins a server. A TLS handshake may take `patience`; 0 = no TLS.
func newTestServer(t *testing.T, logSize int, patience time.Duration) *testServer {
	t.Helper()
	l := listen(t)
	var config *tls.Config
	if patience > 0 {
		config = withCertificate()
	}
	s := &testServer{Server: NewServer(l, config, Options{Peer: anyPeer}), address: l.Addr().String(), sent: make(capture.Accounts, 2)}
	s.patience = patience
	d := describeTwo()
	d.Accounts = func() (capture.Accounts, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Clone(s.sent), nil
	}
	must(t, s.Begin(d))
	s.feed.mu.Lock()
	s.feed.log = newFeedLog(logSize, 2)
	s.feed.mu.Unlock()
	data := make([]byte, 200)
	for range groupSize {
		s.group = append(s.group, capture.Packet{Facts: &capture.Facts{WireLen: 200}, Data: data})
	}
	return s
}

// send sends a group of packets with running numbers.
func (s *testServer) send(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	for i := range s.group {
		s.next++
		s.group[i].ID, s.group[i].Source = s.next, uint16(s.next%2)
		a := &s.sent[s.group[i].Source]
		a.Captured++
		a.Seen++
		a.Bytes += 200
	}
	s.mu.Unlock()
	must(t, errors.Join(s.Write(s.group), s.Flush()))
	s.written.Store(s.next)
}

// A feedReader reads a stream with gopacket, a third-party reader.
type feedReader struct {
	conn         net.Conn
	got, dropped atomic.Uint64 // packets; dropped is the sum of the drop counts, at the end
	hold         chan struct{} // the reader waits until it is closed
	statistics   [2]pcapgo.NgInterfaceStatistics
	ended        chan error
}

// connect opens a connection with a receive buffer of this size; 0 = the system's default.
func connect(t *testing.T, address string, buffer int) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		if buffer == 0 {
			return nil
		}
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) })
	}}
	conn, err := d.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func newFeedReader(t *testing.T, address string, buffer int) *feedReader {
	return readFeed(connect(t, address, buffer))
}

// readFeed reads from a connection, and closes it at its end.
func readFeed(conn net.Conn) *feedReader {
	r := &feedReader{conn: conn, ended: make(chan error, 1), hold: make(chan struct{})}
	go func() {
		<-r.hold
		err := r.read()
		conn.Close()
		r.ended <- err
	}()
	return r
}

func (r *feedReader) read() error {
	var all bytes.Buffer
	ng, err := pcapgo.NewNgReader(io.TeeReader(r.conn, &all), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return err
	}
	for {
		_, _, err := ng.ZeroCopyReadPacketData()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		r.got.Add(1)
	}
	for i := range r.statistics {
		in, err := ng.Interface(i)
		if err != nil {
			return err
		}
		r.statistics[i] = in.Statistics
	}
	// gopacket does not show drop counts.
	for b := all.Bytes(); len(b) > 0; {
		n, _, err := pcapng.BlockLength(b, false)
		if err != nil {
			return err
		}
		block, err := pcapng.ParseBlock(b[:n], false)
		if err != nil {
			return err
		}
		if block.Type == pcapng.TypePacket {
			var p pcapng.Packet
			if err := pcapng.ParsePacket(block, 0, &p); err != nil {
				return err
			}
			r.dropped.Add(p.Dropped)
		}
		b = b[n:]
	}
	return nil
}

// waitFor waits for a condition, and checks it more often than testnet.WaitFor.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("a client that reads does not get its packets")
		}
	}
}

// expire makes the timeout of this connection's batch pass, and waits until the feed has dropped
// the client. It repeats that, because a batch that begins in between has its own timeout. It
// starts when the client's receive buffer is full and no bytes are in flight, because these would
// arrive uncounted.
func (f *feed) expire(t *testing.T, peer net.Conn) {
	t.Helper()
	testnet.WaitFor(t, "a client to be given up", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for c := range f.clients {
			if c.conn.LocalAddr().String() == peer.RemoteAddr().String() {
				if info := c.conn.info(); info.Unacked == 0 && info.Snd_wnd == 0 {
					c.conn.SetWriteDeadline(time.Now())
				}
				return false
			}
		}
		return true
	})
}

// standing returns how many clients have lost packets so far, and how many packets are in flight to
// clients.
func (s *testServer) standing() (losing int, open uint64) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	for c := range s.feed.clients {
		if s.feed.log.lostBy(c.feedCursor) > 0 {
			losing++
		}
		s.feed.log.mu.Lock() // so that no client reads
		_, own := c.progress(s.feed.log)
		s.feed.log.mu.Unlock()
		for _, n := range own {
			open += n
		}
	}
	return losing, open
}

// Of 50 clients ten do not read while packets arrive. The other clients get every packet; these ten
// get the number of lost packets, in drop counts and statistics.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	feedTest(t)
	s := newTestServer(t, 256<<10, 0)
	var readers []*feedReader
	for i := range 50 {
		buffer := 0
		if i < 10 {
			buffer = 64 << 10
		}
		readers = append(readers, newFeedReader(t, s.address, buffer))
	}
	testnet.WaitFor(t, "the clients to join", func() bool { return s.Account().Connected == 50 })
	fast, slow := readers[10:], readers[:10]
	for _, r := range fast {
		close(r.hold)
	}
	// The feed drops a client that reads no bytes for a minute, so this ends as early as possible.
	const total, ahead = 30_000, 400 // packets; the log has room for some 1000
	for losing := 0; s.next < total && losing < len(slow); {
		s.send(t)
		for _, r := range fast {
			waitFor(t, func() bool { return r.got.Load()+ahead > s.next })
		}
		if s.next%1000 == 0 {
			losing, _ = s.standing()
		}
	}
	// Their losses count immediately, although the feed cannot write to them.
	standing := s.Account()
	if standing.Connected != 50 || standing.Lost == 0 {
		t.Errorf("while ten clients stand still: %+v", standing)
	}
	for _, r := range slow {
		close(r.hold)
	}
	// All packets have arrived before the end, so that only statistics are sent then.
	must(t, s.Flush())
	testnet.WaitFor(t, "all clients to get the rest", func() bool {
		_, open := s.standing()
		return open == 0
	})
	s.feed.patience = testnet.Patience // all clients read to the end
	accounts, err := s.End(s.sent)
	if err != nil || accounts.Total() != s.sent.Total() {
		t.Errorf("account %+v, %v", accounts, err)
	}
	var lost uint64
	for i, r := range readers {
		must(t, <-r.ended)
		got := r.got.Load()
		received, dropped := r.statistics[0].PacketsReceived+r.statistics[1].PacketsReceived, r.statistics[0].PacketsDropped+r.statistics[1].PacketsDropped
		if got+dropped != s.next || received != s.next || r.dropped.Load() > dropped || i >= 10 && dropped != 0 || i < 10 && r.dropped.Load() == 0 {
			t.Errorf("client %d got %d and lost %d (%d by its packets) of %d; received %d", i, got, dropped, r.dropped.Load(), s.next, received)
		}
		lost += dropped
	}
	if a := s.Account(); a.Clients != 50 || a.Lost != lost || a.Lost < standing.Lost || a.Connected != 0 {
		t.Errorf("%+v", a)
	}
}
