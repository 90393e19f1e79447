package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
)

const (
	// senderPatience is how long the end of a session waits for a Sender's peer.
	senderPatience = 10 * time.Second
	// A Sender reconnects after the pause firstRedial, and then after twice as long each time, up
	// to lastRedial. After a connection of at least lastRedial the next pause is firstRedial again.
	firstRedial, lastRedial = time.Second, time.Minute
	// dialPatience is the timeout of an attempt, including the TLS handshake.
	dialPatience = 5 * time.Second
)

// A Sender is an Output that connects to a peer that reads pcapng, and reconnects when the
// connection ends: after one second at first, and down to once a minute while connections do not
// last. Each connection has its own stream, with a header and the packets from then on. A live
// session never waits for the peer: packets while there is no connection, or that the peer is too
// slow to read, count as not taken. A packet counts as captured when the peer's kernel has
// acknowledged it, and as not taken if its connection ends before that. Bytes from the peer are
// discarded.
type Sender struct {
	*feed
	address string
	tls     *tls.Config // nil = no TLS
	notice  func(error)
	conn    *feedConn // the first connection, which Begin passes to send
	stop    context.CancelFunc
	sending sync.WaitGroup
	begun   bool

	mu    sync.Mutex
	state senderState // without notTaken, which the feed counts
}

// NewSender connects to an address (host and port) at once, so that a wrong address is an error
// before the capture begins. With a TLS configuration it uses TLS, and the peer's certificate must
// be for that host unless the configuration has another ServerName. notice is called when
// connections end and begin and when packets are not taken: the first time at once, later with
// counts. It is called by another goroutine, and must not wait.
func NewSender(address string, config *tls.Config, notice func(error), o Options) (*Sender, error) {
	s := &Sender{feed: newFeed(o, senderPatience), address: address, tls: config, notice: notice}
	if config != nil && config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		s.tls = config.Clone()
		s.tls.ServerName = host
	}
	s.state.connected = true
	var err error
	s.conn, err = s.connect(context.Background())
	if errors.Is(err, unix.ECONNREFUSED) {
		err = fmt.Errorf("%w: nothing listens there: start the reader before the capture", err)
	}
	return s, err
}

func (s *Sender) connect(ctx context.Context) (*feedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	c := newFeedConn(socket)
	if s.tls != nil {
		if err := c.secure(ctx, tls.Client(c.socket, s.tls)); err != nil {
			socket.Close()
			return nil, err
		}
	}
	return c, nil
}

// Begin starts sending.
func (s *Sender) Begin(d capture.Description) error {
	if err := s.feed.begin(d); err != nil {
		return err
	}
	s.begun = true
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	first := s.feed.join(s.conn) // from the next packet on
	s.sending.Go(func() { s.send(ctx, first) })
	s.sending.Go(s.notify)
	return nil
}

// send serves one connection after the other until the session ends.
func (s *Sender) send(ctx context.Context, c *feedClient) {
	for pause := firstRedial; ; {
		began := time.Now()
		err := s.feed.serve(c)
		c.conn.close()
		if s.hasEnded() {
			return
		}
		s.changeState(func(state *senderState) { state.connected, state.why, state.ends = false, err, state.ends+1 })
		if time.Since(began) >= lastRedial {
			pause = firstRedial
		}
		conn := s.reconnect(ctx, &pause)
		if conn == nil {
			return
		}
		c = s.feed.join(conn)
		s.changeState(func(state *senderState) { state.connected = true })
	}
}

// reconnect waits for the pause and tries to connect, with a longer pause each time, until it
// succeeds. It returns nil if the session ends first.
func (s *Sender) reconnect(ctx context.Context, pause *time.Duration) *feedConn {
	for {
		select {
		case <-s.feed.ended:
			return nil
		case <-time.After(*pause):
		}
		*pause = backOff(*pause)
		if conn, err := s.connect(ctx); err == nil {
			return conn
		}
	}
}

// backOff returns the next pause. Longer pauses are random, so that the many senders of a collector
// do not all reconnect at the same time.
func backOff(pause time.Duration) time.Duration {
	next := min(2*pause, lastRedial)
	if next > 2*firstRedial {
		next -= rand.N(next / 4)
	}
	return next
}

func (s *Sender) changeState(change func(*senderState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

func (s *Sender) hasEnded() bool {
	select {
	case <-s.feed.ended:
		return true
	default:
		return false
	}
}

// End sends the remaining packets, ends the stream, and waits at most ten seconds until all bytes
// have arrived and the peer has closed the connection. Packets that have not arrived by then count
// as not taken, and the connection is reset.
func (s *Sender) End(final capture.Accounts) (capture.Accounts, error) {
	if !s.begun {
		return final.Delivered(make(capture.Accounts, len(final))), s.Close()
	}
	s.feed.end(final)
	s.stop()
	s.sending.Wait()
	return final.Delivered(s.feed.taken), nil
}

// Close closes the connection of a Sender that was not begun.
func (s *Sender) Close() error {
	if s.begun || s.conn == nil {
		return nil
	}
	return s.conn.socket.Close()
}

// Backlog returns how many bytes were added to the log so far, how many of them were read for the
// connections, and how many may wait. Packets while there is no connection are not added.
func (s *Sender) Backlog() (added, written, limit int64) { return s.feed.backlog() }

// Accounts returns the Sender's accounts so far; session returns the session's accounts. Packets
// that have arrived are Captured, packets that will never arrive are NotTaken, and packets in
// flight count only in Seen, like packets in the rings. No counter ever decreases. Any goroutine
// may call it.
func (s *Sender) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	taken := s.feed.takenNow()
	own, err := session()
	if err != nil {
		return own, err
	}
	return own.SoFar(taken), nil
}
