package stream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// heap returns how many bytes of Go's heap are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// checkMemory compares the memory with that before there were clients. Besides the clients' memory,
// the test itself keeps the packets of the client that reads.
func (s *testServer) checkMemory(t *testing.T, before int64) {
	t.Helper()
	limit := MaxClients*(feedBatch+16<<10) + 3*s.Size()
	if more := heap() - before; more > limit {
		t.Errorf("%d bytes of memory more than before there were clients, at most %d", more, limit)
	}
}

// Clients that connect thousands of times, send garbage, close their sending side, or never read do
// not delay the session or use more memory, and a normal client gets every packet. Serial, because
// it measures the memory and the goroutines of the process.
func TestServerHostile(t *testing.T) {
	feedTest(t)
	s := newTestServer(t, 1<<20, 0)
	good := newFeedReader(t, s.address, 0)
	testnet.WaitFor(t, "the client to join", func() bool { return s.Account().Clients == 1 })
	close(good.hold)
	before, memory := runtime.NumGoroutine(), heap()
	connections := 3000
	if testing.Short() {
		connections = 600
	}
	for i := range connections {
		conn, err := net.Dial("tcp", s.address)
		must(t, err)
		switch i % 4 {
		case 0:
			conn.Close()
		case 1:
			conn.Write(bytes.Repeat([]byte("garbage "), 100))
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		case 2:
			conn.(*net.TCPConn).CloseWrite()
			defer conn.Close()
		default:
			conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			defer conn.Close()
		}
		if i%10 == 0 {
			s.send(t)
			waitFor(t, func() bool { return good.got.Load()+1500 > s.next })
		}
		if n := runtime.NumGoroutine(); n > before+2*MaxClients+10 { // for each client one goroutine sends and one reads
			t.Fatalf("%d goroutines, %d before", n, before)
		}
	}
	s.checkMemory(t, memory)
	if a := s.Account(); a.Refused == 0 || a.Clients+a.Refused > uint64(connections)+1 {
		t.Errorf("%+v", a)
	}
	waitFor(t, func() bool { return good.got.Load() == s.next }) // at the end the client has only two seconds
	s.checkEnd(t)
	good.checkAll(t, s.next)
}

// checkEnd ends the session, which does not wait for clients that do not read.
func (s *testServer) checkEnd(t *testing.T) {
	t.Helper()
	began := time.Now()
	if _, err := s.End(s.sent); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > serverPatience+5*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// checkAll checks that a client has this many packets at the end of its stream.
func (r *feedReader) checkAll(t *testing.T, packets uint64) {
	t.Helper()
	if err := <-r.ended; err != nil || r.got.Load() != packets {
		t.Errorf("the client got %d of %d packets: %v", r.got.Load(), packets, err)
	}
}

// The server detects a client that disconnects while there are no packets, and then encodes no more
// packets. A client that only closes its sending side stays.
func TestServerClientGoes(t *testing.T) {
	t.Parallel()
	feedTest(t)
	s := newTestServer(t, 64<<10, 0)
	goes, stays := connect(t, s.address, 0), connect(t, s.address, 0)
	testnet.WaitFor(t, "the clients to join", func() bool { return s.Account().Connected == 2 })
	must(t, stays.(*net.TCPConn).CloseWrite())
	goes.(*net.TCPConn).SetLinger(0)
	goes.Close()
	testnet.WaitFor(t, "one client to leave", func() bool { return s.Account().Connected == 1 })
	s.send(t)
	if !s.feed.hasClients.Load() || s.feed.log.head == 0 {
		t.Error("nothing is encoded for the client that stays")
	}
	testnet.WaitFor(t, "everything to arrive, so that nothing is sent any more", func() bool {
		a := s.feed.takenNow().Total()
		return a.Captured+a.NotTaken == s.next
	})
	stays.Close() // resets the connection, because the client has unread bytes
	testnet.WaitFor(t, "the other client to leave", func() bool { return s.Account().Connected == 0 })
	before := s.feed.log.head
	s.send(t)
	if s.feed.log.head != before {
		t.Error("packets are encoded for nobody")
	}
	if _, err := s.End(s.sent); err != nil {
		t.Error(err)
	}
}

// Connections whose TLS handshake does not end are closed when there are too many. They do not
// count as clients: earlier and later clients get every packet. Serial, because it measures the
// memory and the goroutines of the process.
func TestServerHostileTLS(t *testing.T) {
	feedTest(t)
	s := newTestServer(t, 1<<20, time.Hour) // TestServerHandshakeTimeout tests the timeout
	dial := func() *feedReader {
		r := readFeed(tls.Client(connect(t, s.address, 0), anyCertificate))
		close(r.hold)
		return r
	}
	good := dial()
	testnet.WaitFor(t, "the client to join", func() bool { return s.Account().Connected == 1 })
	before, memory := runtime.NumGoroutine(), heap()
	hello := clientHello(t)
	refused := uint64(0)
	// Handshakes that never end are closed to make room for later ones.
	for _, sent := range [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte{22, 3, 1, 0x40, 0}, 10_000), hello, hello[:len(hello)/2], hello[:1], nil} {
		for range 4 * MaxClients {
			conn := connect(t, s.address, 0)
			conn.Write(sent)
			refused++
			if refused%10 == 0 {
				s.send(t)
				waitFor(t, func() bool { return good.got.Load()+1500 > s.next })
			}
			if n := runtime.NumGoroutine(); n > before+2*maxHandshakesOfOne+10 { // a context has a goroutine, too
				t.Fatalf("%d goroutines, %d before", n, before)
			}
		}
	}
	testnet.WaitFor(t, "the connections to be closed", func() bool {
		return s.Account().Refused == refused-maxHandshakesOfOne && s.handshakes.count() == maxHandshakesOfOne
	})
	s.checkMemory(t, memory)
	if a := s.Account(); a.Clients != 1 || a.Connected != 1 || a.Lost != 0 {
		t.Errorf("%+v", a)
	}
	late := dial()
	testnet.WaitFor(t, "another client to join", func() bool { return s.Account().Connected == 2 })
	from := s.next
	s.send(t)

	// End waits neither for handshakes nor for clients that do not read, not even to send TLS's
	// close_notify.
	standing := tls.Client(connect(t, s.address, 64<<10), anyCertificate)
	must(t, standing.Handshake())
	testnet.WaitFor(t, "the third client to join", func() bool { return s.Account().Connected == 3 })
	for s.Account().Lost == 0 {
		s.send(t)
		waitFor(t, func() bool { return good.got.Load()+1500 > s.next && late.got.Load()+from+1500 > s.next })
	}
	connect(t, s.address, 0)
	testnet.WaitFor(t, "a handshake", func() bool { return s.handshakes.count() > 0 })
	// At the end clients have only two seconds.
	waitFor(t, func() bool { return good.got.Load() == s.next && late.got.Load()+from == s.next })
	s.checkEnd(t)
	good.checkAll(t, s.next)
	late.checkAll(t, s.next-from)
}

// A client that has sent bytes still gets all packets, even if it reads late. A client that has not
// read by the end loses the packets that its kernel did not receive.
func TestServerTail(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, 8<<20, 0)
	late, never := newFeedReader(t, s.address, 0), connect(t, s.address, 0)
	testnet.WaitFor(t, "the clients to join", func() bool { return s.Account().Connected == 2 })
	for _, conn := range []net.Conn{late.conn, never} {
		if _, err := conn.Write(make([]byte, 50_000)); err != nil {
			t.Fatal(err)
		}
	}
	for s.next < 20_000 {
		s.send(t)
	}
	time.AfterFunc(100*time.Millisecond, func() { // bytes sent meanwhile stay in the socket buffers
		close(late.hold)
	})
	s.feed.patience = testnet.Patience // a busy machine needs longer to read all packets
	ended := make(chan error, 1)
	go func() {
		_, err := s.End(s.sent)
		ended <- err
	}()
	late.checkAll(t, s.next)
	s.feed.expire(t, never)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := packetsIn(t, never); got == s.next || got+s.Account().Lost != s.next {
		t.Errorf("the other client got %d of %d, %+v", got, s.next, s.Account())
	}
}

// packetsIn returns how many whole packets arrive before a connection is reset.
func packetsIn(t *testing.T, conn io.Reader) (packets uint64) {
	t.Helper()
	b, err := io.ReadAll(conn)
	if !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the connection ends with %v", err)
	}
	for {
		if len(b) < pcapng.HeaderSize {
			return packets
		}
		n, _, err := pcapng.BlockLength(b, false)
		if err != nil || n > len(b) {
			return packets
		}
		if block, err := pcapng.ParseBlock(b[:n], false); err == nil && block.Type == pcapng.TypePacket {
			packets++
		}
		b = b[n:]
	}
}

// A client whose TLS handshake does not end in time is refused.
func TestServerHandshakeTimeout(t *testing.T) {
	t.Parallel()
	feedTest(t)
	s := newTestServer(t, 1<<20, 50*time.Millisecond)
	defer s.End(s.sent)
	conn := connect(t, s.address, 0)
	if _, err := conn.Write(clientHello(t)[:1]); err != nil {
		t.Fatal(err)
	}
	testnet.WaitFor(t, "the client to be refused", func() bool { return s.Account().Refused == 1 })
	if a := s.Account(); a.Clients != 0 || s.handshakes.count() != 0 {
		t.Errorf("%+v, %d handshakes", a, s.handshakes.count())
	}
}

// Handshakes that never end have an upper bound, in total and per address, and do not keep other
// clients out.
func TestServerHandshakes(t *testing.T) {
	t.Parallel()
	feedTest(t)
	s := newTestServer(t, 1<<20, time.Hour)
	defer s.End(s.sent)
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := d.Dial("tcp", s.address)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for i := range 3 * maxHandshakes {
		from("127.0.0.2")
		from(fmt.Sprintf("127.0.1.%d", i+1))
	}
	testnet.WaitFor(t, "the others to be closed", func() bool {
		return s.Account().Refused == 6*maxHandshakes-maxHandshakes
	})
	own := 0
	s.handshakes.mu.Lock()
	for _, one := range s.handshakes.all {
		if one.from.Addr() == netip.MustParseAddr("127.0.0.2") {
			own++
		}
	}
	s.handshakes.mu.Unlock()
	if own == 0 || own > maxHandshakesOfOne {
		t.Errorf("one address has %d handshakes", own)
	}
	for range MaxClients {
		conn := tls.Client(connect(t, s.address, 0), anyCertificate)
		must(t, conn.Handshake())
	}
	testnet.WaitFor(t, "as many clients as there are places", func() bool { return s.Account().Connected == MaxClients })
	if n := s.handshakes.count(); n == 0 || n > maxHandshakes {
		t.Errorf("%d handshakes", n)
	}
}

// clientHello is the first message of a TLS client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		tls.Client(here, anyCertificate).Handshake()
	}()
	hello := make([]byte, 4096)
	n, err := there.Read(hello)
	must(t, err)
	return hello[:n]
}

func (h *handshakes) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}
