package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// feedTest skips a test of what is the same on every kernel.
func feedTest(t *testing.T) {
	t.Helper()
	if testnet.Emulated() {
		t.Skip("is the same on every kernel")
	}
}

// Whatever sizes blocks have and however slow clients are, each of them gets whole blocks in their
// order, and the drop counts say exactly what is missing.
func TestFeedLog(t *testing.T) {
	feedTest(t)
	random := rand.New(rand.NewSource(1))
	const sources = 3
	l := newFeedLog(4096, sources)
	type reader struct {
		*feedCursor
		got, dropped [sources]uint64
		joined       [sources]uint64
		last         [sources]uint64
	}
	var readers []*reader
	var sent [sources]uint64
	take := func(r *reader, limit int) int {
		before := r.given.Total().Captured
		b := l.take(r.feedCursor, nil, limit)
		for n := 0; n < len(b); {
			size, _, err := pcapng.BlockLength(b[n:], false)
			if err != nil {
				t.Fatal(err)
			}
			block, err := pcapng.ParseBlock(b[n:n+size], false)
			if err != nil {
				t.Fatal(err)
			}
			var p pcapng.Packet
			if err := pcapng.ParsePacket(block, 0, &p); err != nil {
				t.Fatal(err)
			}
			i := p.Interface
			if p.ID <= r.last[i] {
				t.Fatalf("packet %d behind packet %d", p.ID, r.last[i])
			}
			if p.ID != r.last[i]+p.Dropped+1 {
				t.Fatalf("packet %d behind packet %d says that %d are missing", p.ID, r.last[i], p.Dropped)
			}
			r.last[i] = p.ID
			r.got[i]++
			r.dropped[i] += p.Dropped
			n += size
		}
		return int(r.given.Total().Captured - before)
	}
	for round := range 20_000 {
		if round%2_000 == 0 {
			r := &reader{feedCursor: l.join(), joined: sent, last: sent}
			readers = append(readers, r)
		}
		source := random.Intn(sources)
		sent[source]++
		block := pcapng.AppendPacket(nil, &pcapng.Packet{
			Interface: uint32(source), Data: make([]byte, random.Intn(300)), Fields: pcapng.HasID, ID: sent[source],
		})
		l.add(block, []placed{{end: int64(len(block)), source: uint32(source)}}, 0)
		for i, r := range readers {
			if random.Intn(1+i*i) == 0 {
				take(r, random.Intn(2000))
			}
		}
	}
	for i, r := range readers {
		for take(r, 1000) > 0 {
		}
		for s := range sources {
			if total := r.got[s] + r.lost[s].Lost; total != sent[s]-r.joined[s] || r.dropped[s]+r.pending[s] != r.lost[s].Lost {
				t.Errorf("reader %d, source %d: got %d, lost %d, of %d; dropped %d, pending %d",
					i, s, r.got[s], r.lost[s].Lost, sent[s]-r.joined[s], r.dropped[s], r.pending[s])
			}
		}
	}
	if readers[0].lost.Total().Lost != 0 || readers[len(readers)-1].lost.Total().Lost == 0 {
		t.Error("the first reader is to lose nothing, and the last one something")
	}
}

// A testServer is a Server on a loopback port, and what was sent through it.
type testServer struct {
	*Server
	address string
	mu      sync.Mutex // for sent, which clients that join read
	sent    Accounts
	next    uint64
	group   []Packet
	written atomic.Uint64 // packets
}

func newTestServer(t *testing.T, logSize int) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{Server: NewServer(l, WriterOptions{}), address: l.Addr().String(), sent: make(Accounts, 2)}
	d := describeTwo()
	d.Accounts = func() (Accounts, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Clone(s.sent), nil
	}
	if err := s.Begin(d); err != nil {
		t.Fatal(err)
	}
	s.feed.log = newFeedLog(logSize, 2)
	data := packetOf(200, 1)
	for range groupSize {
		s.group = append(s.group, Packet{Data: data, WireLen: 200})
	}
	return s
}

// send sends a group of packets with running numbers.
func (s *testServer) send(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	for i := range s.group {
		s.next++
		s.group[i].ID, s.group[i].Source = s.next, int(s.next%2)
		a := &s.sent[s.group[i].Source]
		a.Captured++
		a.Seen++
		a.Bytes += 200
	}
	s.mu.Unlock()
	if err := errors.Join(s.Write(s.group), s.Flush()); err != nil {
		t.Fatal(err)
	}
	s.written.Store(s.next)
}

// A feedReader reads a stream as a foreign reader does.
type feedReader struct {
	conn         net.Conn
	got, dropped atomic.Uint64 // packets; dropped is the sum of the drop counts, at the end
	hold         chan struct{} // nothing is read until it is closed
	statistics   [2]pcapgo.NgInterfaceStatistics
	ended        chan error
}

// connect opens a connection with so large a buffer for what is not read; 0 = as the system has it.
func connect(t *testing.T, address string, buffer int) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		if buffer == 0 {
			return nil
		}
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) })
	}}
	conn, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func newFeedReader(t *testing.T, address string, buffer int) *feedReader {
	r := &feedReader{conn: connect(t, address, buffer), ended: make(chan error, 1), hold: make(chan struct{})}
	go func() {
		<-r.hold
		r.ended <- r.read()
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

// waitFor waits for a client that is to get further, and looks more often than testnet.WaitFor.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("a client that reads does not get its packets")
		}
	}
}

// Of 50 clients ten read nothing while packets come. The others get every packet; these ten are
// told what they lost, in their drop counts and statistics.
func TestServerStalls(t *testing.T) {
	feedTest(t)
	s := newTestServer(t, 256<<10)
	var readers []*feedReader
	for i := range 50 {
		buffer := 0
		if i < 10 {
			buffer = 64 << 10
		}
		readers = append(readers, newFeedReader(t, s.address, buffer))
	}
	testnet.WaitFor(t, "the clients to join", func() bool {
		s.feed.mu.Lock()
		defer s.feed.mu.Unlock()
		return len(s.feed.clients) == 50
	})
	fast, slow := readers[10:], readers[:10]
	for _, r := range fast {
		close(r.hold)
	}
	const total, ahead = 30_000, 400 // packets; the log has room for some 1000
	for s.next < total {
		s.send(t)
		for _, r := range fast {
			waitFor(t, func() bool { return r.got.Load()+ahead > s.next })
		}
	}
	for _, r := range slow {
		close(r.hold)
	}
	testnet.WaitFor(t, "the slow clients to get the rest", func() bool {
		s.feed.mu.Lock()
		defer s.feed.mu.Unlock()
		for c := range s.feed.clients {
			if c.given.Total().Captured+c.lost.Total().Lost < s.next {
				return false
			}
		}
		return true
	})
	accounts, err := s.End(s.sent)
	if err != nil || accounts.Total() != s.sent.Total() {
		t.Errorf("account %+v, %v", accounts, err)
	}
	for i, r := range readers {
		if err := <-r.ended; err != nil {
			t.Fatal(err)
		}
		got := r.got.Load()
		received, dropped := r.statistics[0].PacketsReceived+r.statistics[1].PacketsReceived, r.statistics[0].PacketsDropped+r.statistics[1].PacketsDropped
		if got+dropped != s.next || received != s.next || r.dropped.Load() > dropped || i >= 10 && dropped != 0 || i < 10 && r.dropped.Load() == 0 {
			t.Errorf("client %d got %d and lost %d (%d by its packets) of %d; received %d", i, got, dropped, r.dropped.Load(), s.next, received)
		}
	}
	if a := s.Account(); a.Clients != 50 || a.Lost == 0 {
		t.Errorf("%+v", a)
	}
}

// Clients that connect thousands of times, send garbage, send nothing more, or never read neither
// hold up the session nor make it grow, and one that behaves gets every packet.
func TestServerHostile(t *testing.T) {
	feedTest(t)
	s := newTestServer(t, 1<<20)
	good := newFeedReader(t, s.address, 0)
	testnet.WaitFor(t, "the client to join", func() bool { return s.Account().Clients == 1 })
	close(good.hold)
	before := runtime.NumGoroutine()
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

// A Sender whose reader goes connects again, and begins a stream of its own. What came meanwhile is
// not taken.
func TestSenderReconnects(t *testing.T) {
	feedTest(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	notices := make(chan error, 10)
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	s, err := NewSender("tcp://there", dial, func(err error) { notices <- err }, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(describeTwo()); err != nil {
		t.Fatal(err)
	}
	sent := make(Accounts, 2)
	write := func() {
		p := testPacket(int(sent.Total().Captured))
		sent[p.Source].Captured++
		sent[p.Source].Seen++
		if err := errors.Join(s.Write([]Packet{*p}), s.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if _, err := io.ReadFull(first, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	first.(*net.TCPConn).SetLinger(0)
	first.Close()
	for len(notices) == 0 { // until a write has failed
		write()
		runtime.Gosched()
	}
	if err := <-notices; !strings.HasPrefix(err.Error(), "tcp://there: the connection has ended, packets are not taken") {
		t.Error(err)
	}
	for range 10 {
		write()
	}
	second, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := <-notices; fmt.Sprint(err) != "tcp://there: connected again" {
		t.Error(err)
	}
	missed := sent.Total().Captured
	for range 10 {
		write()
	}
	ended := make(chan Accounts, 1)
	go func() {
		own, err := s.End(sent)
		if err != nil {
			t.Error(err)
		}
		ended <- own
	}()
	r := &feedReader{conn: second}
	if err := r.read(); err != nil || r.got.Load() != 10 {
		t.Errorf("the second stream has %d packets, want 10: %v", r.got.Load(), err)
	}
	own := (<-ended).Total()
	if own.Captured+own.NotTaken != sent.Total().Captured || own.NotTaken < 10 || own.Captured < 10 || own.Captured > 10+missed-10 {
		t.Errorf("account %+v of %+v", own, sent.Total())
	}
}
