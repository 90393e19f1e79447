package capture

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// heap is how many bytes of Go's memory are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// checkMemory compares the memory with what it was before there were clients. Besides what they may
// take, the test itself keeps what its client that reads has got.
func (s *testServer) checkMemory(t *testing.T, before int64) {
	t.Helper()
	limit := MaxClients*(feedBatch+16<<10) + 3*s.feed.size.Load()
	if more := heap() - before; more > limit {
		t.Errorf("%d bytes of memory more than before there were clients, at most %d", more, limit)
	}
}

// Clients that connect thousands of times, send garbage, send nothing more, or never read neither
// hold up the session nor make it grow, and one that behaves gets every packet.
func TestServerHostile(t *testing.T) {
	feedTest(t)
	s := newTestServer(t, 1<<20, nil)
	good := newFeedReader(t, s.address, 0)
	testnet.WaitFor(t, "the client to join", func() bool { return s.Account().Clients == 1 })
	close(good.hold)
	before, memory := runtime.NumGoroutine(), heap()
	for i := range 3000 {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
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
		if n := runtime.NumGoroutine(); n > before+MaxClients+10 {
			t.Fatalf("%d goroutines, %d before", n, before)
		}
	}
	s.checkMemory(t, memory)
	if a := s.Account(); a.Refused == 0 || a.Clients+a.Refused > 3001 {
		t.Errorf("%+v", a)
	}
	began := time.Now()
	if _, err := s.End(s.sent); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > serverPatience+5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if err := <-good.ended; err != nil || good.got.Load() != s.next {
		t.Errorf("the good client got %d of %d: %v", good.got.Load(), s.next, err)
	}
}

// A client that goes while nothing comes is noticed, and then nothing is encoded any more. One that
// only sends nothing more stays.
func TestServerClientGoes(t *testing.T) {
	feedTest(t)
	s := newTestServer(t, 64<<10, nil)
	goes, stays := connect(t, s.address, 0), connect(t, s.address, 0)
	testnet.WaitFor(t, "the clients to join", func() bool { return s.Account().Connected == 2 })
	if err := stays.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	goes.(*net.TCPConn).SetLinger(0)
	goes.Close()
	testnet.WaitFor(t, "one client to leave", func() bool { return s.Account().Connected == 1 })
	s.send(t)
	if !s.feed.some.Load() || s.feed.log.head == 0 {
		t.Error("nothing is encoded for the client that stays")
	}
	stays.Close()
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

// Connections whose TLS handshake does not end are closed after a time. So long they take the
// places of clients, and others are refused; who was there before gets every packet, and who comes
// afterwards, too.
func TestServerHostileTLS(t *testing.T) {
	feedTest(t)
	web := httptest.NewTLSServer(nil) // has a certificate
	defer web.Close()
	s := newTestServer(t, 1<<20, &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS13})
	dial := func() *feedReader {
		conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		r := readFeed(conn)
		close(r.hold)
		return r
	}
	good := dial()
	testnet.WaitFor(t, "the client to join", func() bool { return s.Account().Connected == 1 })
	before, memory := runtime.NumGoroutine(), heap()
	hello := clientHello(t)
	refused := uint64(0)
	for _, sent := range [][]byte{nil, hello[:1], hello[:len(hello)/2], hello, []byte("GET / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte{22, 3, 1, 0x40, 0}, 10_000)} {
		for range 4 * MaxClients {
			conn := connect(t, s.address, 0)
			conn.Write(sent)
			refused++
			if refused%10 == 0 {
				s.send(t)
				waitFor(t, func() bool { return good.got.Load()+1500 > s.next })
			}
			if n := runtime.NumGoroutine(); n > before+2*MaxClients+10 { // a context's end is one, too
				t.Fatalf("%d goroutines, %d before", n, before)
			}
		}
		testnet.WaitFor(t, "the connections to be closed", func() bool { return s.Account().Refused == refused && s.active.Load() == 1 })
	}
	s.checkMemory(t, memory)
	if a := s.Account(); a.Clients != 1 || a.Connected != 1 || a.Lost != 0 {
		t.Errorf("%+v", a)
	}
	late := dial()
	testnet.WaitFor(t, "another client to join", func() bool { return s.Account().Connected == 2 })
	from := s.next
	s.send(t)

	// At the end neither a handshake is waited for nor who takes nothing, not even the word of TLS
	// that this is the end.
	standing := tls.Client(connect(t, s.address, 64<<10), &tls.Config{InsecureSkipVerify: true})
	if err := standing.Handshake(); err != nil {
		t.Fatal(err)
	}
	testnet.WaitFor(t, "the third client to join", func() bool { return s.Account().Connected == 3 })
	for s.Account().Lost == 0 {
		s.send(t)
		waitFor(t, func() bool { return good.got.Load()+1500 > s.next && late.got.Load()+from+1500 > s.next })
	}
	connect(t, s.address, 0)
	testnet.WaitFor(t, "a connection", func() bool { return s.active.Load() == 4 })
	began := time.Now()
	if _, err := s.End(s.sent); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > serverPatience+3*time.Second {
		t.Errorf("the end took %v", took)
	}
	if err := <-good.ended; err != nil || good.got.Load() != s.next {
		t.Errorf("the good client got %d of %d: %v", good.got.Load(), s.next, err)
	}
	if err := <-late.ended; err != nil || late.got.Load() != s.next-from {
		t.Errorf("the late client got %d of %d: %v", late.got.Load(), s.next-from, err)
	}
}

// clientHello is what a client of TLS sends first.
func clientHello(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		tls.Client(here, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}()
	hello := make([]byte, 4096)
	n, err := there.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}
