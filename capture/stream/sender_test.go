package stream

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A testSender is a Sender that has begun, the listener that it connects to, and the number of sent
// packets.
type testSender struct {
	*Sender
	listener *net.TCPListener
	secure   *tls.Config // of the listener's side; nil = no TLS
	notices  chan error
	sent     capture.Accounts
	group    []capture.Packet
	block    int // bytes of the block of each packet
}

// newTestSender begins a sender, and returns the other end of its first connection.
func newTestSender(t *testing.T, secure bool) (*testSender, *net.TCPConn, net.Conn) {
	t.Helper()
	l := listen(t)
	s := &testSender{listener: l.(*net.TCPListener), notices: make(chan error, 100), sent: make(capture.Accounts, 2)}
	var config *tls.Config
	if secure {
		s.secure, config = withCertificate(), anyCertificate
	}
	type end struct {
		socket *net.TCPConn
		conn   net.Conn
	}
	accepted := make(chan end, 1)
	go func() {
		socket, conn := s.accept(t)
		accepted <- end{socket, conn}
	}()
	var err error
	if s.Sender, err = NewSender(l.Addr().String(), config, func(err error) { s.notices <- err }, Options{}); err != nil {
		t.Fatal(err)
	}
	must(t, s.Begin(describeTwo()))
	data := make([]byte, 200)
	for i := range groupSize {
		s.group = append(s.group, capture.Packet{Source: uint16(i % 2), Facts: &capture.Facts{WireLen: 200, ID: 1}, Data: data})
	}
	s.block = len(capture.NewEncoder(&s.feed.description, capture.EncoderOptions{}).Append(nil, &s.group[0]))
	first := <-accepted
	return s, first.socket, first.conn
}

// accept returns the next connection, as a socket and as a stream, with TLS if configured.
func (s *testSender) accept(t *testing.T) (*net.TCPConn, net.Conn) {
	socket, err := s.listener.AcceptTCP()
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	t.Cleanup(func() { socket.Close() })
	if s.secure == nil {
		return socket, socket
	}
	conn := tls.Server(socket, s.secure) // which sends tickets
	if err := conn.Handshake(); err != nil {
		t.Error(err)
	}
	return socket, conn
}

// send sends this many packets.
func (s *testSender) send(t *testing.T, packets int) {
	t.Helper()
	for range packets {
		p := &s.group[s.sent.Total().Seen%2]
		a := &s.sent[p.Source]
		a.Seen++
		a.Captured++
		a.Bytes += 200
		must(t, s.Write([]capture.Packet{*p}))
	}
	must(t, s.Flush())
}

// stand sends until the socket buffers of both sides are full and no bytes are in flight, and
// returns how many bytes have arrived at a peer that does not read. It fills at most half of the
// log, so that no packet is overwritten there.
func (s *testSender) stand(t *testing.T, peer *net.TCPConn) (received uint64) {
	t.Helper()
	hasRoom := true
	testnet.WaitFor(t, "both sides to stand still", func() bool {
		if hasRoom {
			s.send(t, 500)
		}
		s.feed.mu.Lock()
		defer s.feed.mu.Unlock()
		for c := range s.feed.clients {
			l := s.feed.log
			l.mu.Lock() // so that the client does not move
			hasRoom = l.head-c.at < uint64(l.size()/2)
			l.mu.Unlock()
			here, there := c.conn.info(), newFeedConn(peer).info()
			received = there.Bytes_received
			return here.Notsent_bytes > 0 && here.Unacked == 0 && here.Snd_wnd == 0 && here.Bytes_acked-c.conn.before == received
		}
		return false
	})
	return received
}

// now are the accounts so far.
func (s *testSender) now(t *testing.T) capture.Account {
	t.Helper()
	own, err := s.Accounts(func() (capture.Accounts, error) { return append(capture.Accounts{}, s.sent...), nil })
	must(t, err)
	return own.Total()
}

// finish ends the sender, and checks that its account adds up.
func (s *testSender) finish(t *testing.T) capture.Account {
	t.Helper()
	live := s.now(t)
	own, err := s.End(s.sent)
	if err != nil {
		t.Error(err)
	}
	a := own.Total()
	if a.Captured+a.NotTaken != s.sent.Total().Captured || a.NotTaken != a.Lost || a.Bytes != 200*a.Captured {
		t.Errorf("account %+v of %+v", a, s.sent.Total())
	}
	if live.Captured > a.Captured || live.NotTaken > a.NotTaken {
		t.Errorf("before the end %+v, then %+v", live, a)
	}
	if last := s.now(t); last != a {
		t.Errorf("after the end %+v, the account %+v", last, a)
	}
	return a
}

// checkArrived compares the account with how many bytes arrived at a peer. Without TLS every packet
// whose block arrived counts; with TLS only packets of whole batches do.
func (s *testSender) checkArrived(t *testing.T, a capture.Account, received uint64) {
	t.Helper()
	most := (received - uint64(len(s.feed.header))) / uint64(s.block)
	least := most
	if s.secure != nil {
		least -= (feedBatch + feedBatch/10) / uint64(s.block)
	}
	if a.Captured > most || a.Captured < least {
		t.Errorf("%d packets are captured, %d to %d have arrived with %d bytes", a.Captured, least, most, received)
	}
}

// The account counts as captured exactly the packets that the peer's kernel received, not those
// lost in the local kernel, whatever the peer does.
func TestSenderAccount(t *testing.T) {
	t.Parallel()
	feedTest(t)
	for _, secure := range []bool{false, true} {
		for name, test := range map[string]func(*testing.T, *testSender, *net.TCPConn, net.Conn){
			"sends and reads late": func(t *testing.T, s *testSender, socket *net.TCPConn, conn net.Conn) {
				s.send(t, 1)
				if _, err := conn.Write(make([]byte, 1_000_000)); err != nil {
					t.Fatal(err)
				}
				testnet.WaitFor(t, "what the reader sends to be read", func() bool {
					info := newFeedConn(socket).info()
					return info.Unacked == 0 && info.Notsent_bytes == 0
				})
				s.send(t, 20_000)
				finishReading(t, s, conn, 20_001, 20_001)
			},
			"has closed its side": func(t *testing.T, s *testSender, socket *net.TCPConn, conn net.Conn) {
				must(t, conn.(interface{ CloseWrite() error }).CloseWrite())
				socket.CloseWrite()
				s.send(t, 20_000)
				finishReading(t, s, conn, 20_000, 20_000)
			},
			"stops reading": func(t *testing.T, s *testSender, socket *net.TCPConn, conn net.Conn) {
				s.feed.patience = 300 * time.Millisecond
				s.conn.socket.Conn.(*net.TCPConn).SetWriteBuffer(8 << 10) // so that a batch arrives in part
				s.send(t, 1000)
				head := make([]byte, 30_000)
				if _, err := io.ReadFull(conn, head); err != nil {
					t.Fatal(err)
				}
				received := s.stand(t, socket)
				a := s.finish(t)
				s.checkArrived(t, a, received)
				if got := packetsIn(t, io.MultiReader(bytes.NewReader(head), conn)); a.Captured > got || s.secure == nil && a.Captured != got {
					t.Errorf("%d packets can be read, the account is %+v", got, a)
				}
			},
			"resets": func(t *testing.T, s *testSender, socket *net.TCPConn, conn net.Conn) {
				received := s.stand(t, socket)
				socket.SetLinger(0)
				socket.Close()
				checkNotice(t, s, ": the connection has ended, and packets are not sent until there is a new one: ")
				s.listener.Close()
				s.checkArrived(t, s.finish(t), received)
			},
			"does not take a batch in time": func(t *testing.T, s *testSender, socket *net.TCPConn, conn net.Conn) {
				received := s.stand(t, socket)
				testnet.WaitFor(t, "the connection to end", func() bool {
					s.send(t, 500) // so that it writes, because the local send buffer may still have room
					s.feed.mu.Lock()
					for c := range s.feed.clients {
						c.conn.SetWriteDeadline(time.Now()) // until it is in a write, which first sets its own deadline
					}
					s.feed.mu.Unlock()
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.state.ends > 0
				})
				checkNotice(t, s, "i/o timeout")
				s.listener.Close()
				s.checkArrived(t, s.finish(t), received)
			},
		} {
			t.Run(fmt.Sprintf("%s, TLS %v", name, secure), func(t *testing.T) {
				t.Parallel()
				s, socket, conn := newTestSender(t, secure)
				test(t, s, socket, conn)
			})
		}
	}
}

// finishReading ends a sender, whose last reader must get this many of the captured packets.
func finishReading(t *testing.T, s *testSender, conn net.Conn, packets, captured uint64) {
	t.Helper()
	s.feed.patience = testnet.Patience // a busy machine needs longer to read all packets
	r := &feedReader{conn: conn}
	done := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond) // bytes sent meanwhile stay in the socket buffers
		err := r.read()
		conn.Close()
		done <- err
	}()
	if a := s.finish(t); a.Captured != captured {
		t.Errorf("account %+v, want %d packets", a, captured)
	}
	if err := <-done; err != nil || r.got.Load() != packets {
		t.Errorf("%d packets arrived, want %d: %v", r.got.Load(), packets, err)
	}
}

// checkNotice waits for a notice that has these words.
func checkNotice(t *testing.T, s *testSender, words string) {
	t.Helper()
	for {
		select {
		case err := <-s.notices:
			if strings.HasPrefix(err.Error(), "tcp://"+s.address+": ") && strings.Contains(err.Error(), words) {
				return
			}
		case <-time.After(testnet.Patience):
			t.Fatalf("no notice with %q", words)
		}
	}
}

// While a session runs, the account of a Sender includes lost packets: no counter ever decreases,
// and a notice reports the loss.
func TestSenderLive(t *testing.T) {
	t.Parallel()
	s, peer, _ := newTestSender(t, false)
	received := s.stand(t, peer)
	var before capture.Account
	look := func() capture.Account {
		t.Helper()
		a := s.now(t)
		if a.Captured < before.Captured || a.NotTaken < before.NotTaken || a.Captured+a.Lost > a.Seen {
			t.Fatalf("after %+v there is %+v", before, a)
		}
		before = a
		return a
	}
	s.checkArrived(t, look(), received)
	if n := before.NotTaken; n > 0 {
		t.Errorf("%d packets are not taken while all that have not arrived wait in the log", n)
	}
	if notice := newSenderNotices("").next(time.Now(), s.stateNow()); notice != nil || len(s.notices) > 0 {
		t.Errorf("%d notices while nothing is lost; the next one is %v", len(s.notices), notice)
	}
	for look().NotTaken < 10_000 {
		s.send(t, 1000)
	}
	checkNotice(t, s, "the peer reads too slowly; ")
	// The sender needs s.mu to record that the connection has ended, and reconnects only after
	// that. The test holds s.mu, so that the sender does not reconnect yet.
	s.mu.Lock()
	peer.SetLinger(0)
	peer.Close()
	testnet.WaitFor(t, "the connection to end", func() bool {
		s.feed.mu.Lock()
		defer s.feed.mu.Unlock()
		return len(s.feed.clients) == 0
	})
	gone := look()
	if gone.Captured+gone.Lost != gone.Seen {
		t.Errorf("with nothing on its way: %+v", gone)
	}
	s.send(t, 100)
	if a := look(); a.NotTaken != gone.NotTaken+100 {
		t.Errorf("without a connection: %+v, before %+v", a, gone)
	}
	s.mu.Unlock()
	checkNotice(t, s, ": the connection has ended")
	next, _ := s.accept(t)
	checkNotice(t, s, fmt.Sprintf("reconnected; %d packets not sent so far", before.NotTaken))
	s.send(t, 10)
	testnet.WaitFor(t, "packets to arrive", func() bool { return look().Captured == gone.Captured+10 })
	finishReading(t, s, next, 10, gone.Captured+10)
}

// Notices of a connection that never lasts, or of a reader that is always too slow, become rare.
func TestSenderTeller(t *testing.T) {
	t.Parallel()
	feedTest(t)
	began := time.Unix(1e9, 0)
	for _, test := range []struct {
		name string
		at   func(s *senderState, since time.Duration) // sets the state at that time
		want []string

		least, most int // notices in a day
	}{
		{"a slow reader", func(s *senderState, since time.Duration) { s.notTaken = uint64(since / time.Millisecond) }, []string{
			"reads too slowly; 250 packets", "is connected; the connection has ended 0 times, and 60250 packets",
		}, 24, 30},
		{"a reader that goes again and again", func(s *senderState, since time.Duration) {
			s.ends, s.connected, s.why = 1+int(since/(2*time.Second)), since/time.Second%2 == 1, io.EOF
			s.notTaken = uint64(s.ends)
		}, []string{
			"the connection has ended, and packets are not sent until there is a new one: EOF", "reconnected; 1 packets",
			"the connection has ended 31 times, and 31 packets",
		}, 24, 30},
		{"nobody", func(s *senderState, since time.Duration) {
			if since > 0 {
				s.ends, s.connected, s.why, s.notTaken = 1, false, io.EOF, uint64(since)
			}
		}, []string{"until there is a new one: EOF", "is not connected; the connection has ended 1 times"}, 24, 30},
		{"a reader that is back at once", func(s *senderState, since time.Duration) { s.ends, s.why, s.notTaken = 1, io.EOF, 1 }, []string{
			"until there is a new one: EOF", "reconnected; 1 packets",
		}, 2, 2},
		{"a loss in an hour", func(s *senderState, since time.Duration) { s.notTaken = uint64(since / time.Hour) }, []string{
			"reads too slowly; 1 packets", "reads too slowly; 2 packets", "reads too slowly; 3 packets",
		}, 24, 24},
	} {
		t.Run(test.name, func(t *testing.T) {
			notices, state := newSenderNotices("tcp://there"), senderState{connected: true}
			var got []string
			for since := time.Duration(0); since <= 24*time.Hour; since += noticeInterval {
				if since > 0 {
					test.at(&state, since)
				}
				if notice := notices.next(began.Add(since), state); notice != nil {
					got = append(got, notice.Error())
				}
			}
			if len(got) < test.least || len(got) > test.most {
				t.Fatalf("%d notices: %q", len(got), got)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("notice %d is %q, want %q", i, got[i], want)
				}
			}
		})
	}
}

// A Sender that cannot connect, or whose connections do not last, retries at growing intervals.
func TestSenderBacksOff(t *testing.T) {
	t.Parallel()
	feedTest(t)
	pause, total := firstRedial, time.Duration(0)
	for range 20 {
		total += pause
		next := backOff(pause)
		if next < pause/2 || next > 2*pause || next > lastRedial {
			t.Errorf("%v after %v", next, pause)
		}
		pause = next
	}
	if total < 8*time.Minute || total > 20*time.Minute {
		t.Errorf("20 attempts within %v", total)
	}
	if backOff(firstRedial) != 2*firstRedial {
		t.Error("the second attempt is not two seconds after the first one")
	}
}

// With TLS, packets of a batch that was only partly sent have not arrived, because a peer cannot
// read part of a record.
func TestFeedClientPartOfBatch(t *testing.T) {
	t.Parallel()
	feedTest(t)
	config := withCertificate()
	config.SessionTicketsDisabled = true
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		if tls.Server(there, config).Handshake() == nil {
			io.ReadFull(there, make([]byte, 30_000))
		}
	}()
	conn := newFeedConn(here)
	must(t, conn.secure(t.Context(), tls.Client(conn.socket, anyCertificate)))
	var packets []sent
	for i := range 60 {
		packets = append(packets, sent{end: int64(i+1) * 1000, bytes: 900})
	}
	c := newFeedClient(conn, 1)
	if err := c.send(make([]byte, 60_000), packets); err == nil || conn.taken() < 20_000 || c.arrived.Total().Captured != 0 {
		t.Errorf("of %d bytes %+v has arrived: %v", conn.taken(), c.arrived, err)
	}
}

// If no process listens at the address, the error of NewSender has that cause and the remedy.
func TestSenderRefused(t *testing.T) {
	t.Parallel()
	feedTest(t)
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(socket)
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil { // so that no other process has the port
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(socket)
	must(t, err)
	nobody := fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
	_, err = NewSender(nobody, nil, func(error) {}, Options{})
	if err == nil || !strings.HasSuffix(err.Error(), "connection refused: nothing listens there: start the reader before the capture") {
		t.Error(err)
	}
}
