package capture

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// senderPatience is how long the end of a session waits for the other end of a Sender.
	senderPatience = 10 * time.Second
	// redialInterval is how long a Sender waits between two attempts to connect.
	redialInterval = time.Second
	// dialPatience is how long an attempt may take.
	dialPatience = 5 * time.Second
)

// A Sender is an Output that connects to somebody who reads pcapng, and connects again when the
// connection has ended. Each connection gets a stream of its own, with a header, from then on. What
// comes while there is none, and what the other end is too slow for, is not taken; it holds up
// nobody. Packets count as taken when the kernel has them to send.
type Sender struct {
	feed    *feed
	name    string
	dial    func(context.Context) (net.Conn, error)
	notice  func(error)
	conn    net.Conn // the first one, until Begin
	stop    context.CancelFunc
	sending sync.WaitGroup
	begun   bool
}

// NewSender connects, so that a mistake is an error before anything is captured. Notices are told
// of connections that end and begin, and must not wait.
func NewSender(name string, dial func(context.Context) (net.Conn, error), notice func(error), o WriterOptions) (*Sender, error) {
	o.Format = PCAPNG
	s := &Sender{feed: newFeed(o, senderPatience), name: name, dial: dial, notice: notice}
	var err error
	s.conn, err = s.connect(context.Background())
	return s, err
}

func (s *Sender) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	return s.dial(ctx)
}

// Begin begins to send.
func (s *Sender) Begin(d Description) error {
	if err := s.feed.begin(d); err != nil {
		return err
	}
	s.begun = true
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	first := make(chan struct{})
	s.sending.Go(func() { s.send(ctx, first) })
	<-first
	return nil
}

// send serves one connection after the other until the session ends. It closes first when the
// first one is served from the next packet on.
func (s *Sender) send(ctx context.Context, first chan struct{}) {
	conn := s.conn
	for {
		c := s.feed.join(conn)
		if first != nil {
			close(first)
			first = nil
		}
		err := s.feed.serve(c)
		conn.Close()
		if s.hasEnded() {
			return
		}
		s.notice(fmt.Errorf("%s: the connection has ended, packets are not taken until there is another one: %w", s.name, err))
		for conn = nil; conn == nil; {
			select {
			case <-s.feed.ended:
				return
			case <-time.After(redialInterval):
			}
			if conn, err = s.connect(ctx); err != nil {
				conn = nil
			}
		}
		s.notice(fmt.Errorf("%s: connected again", s.name))
	}
}

func (s *Sender) hasEnded() bool {
	select {
	case <-s.feed.ended:
		return true
	default:
		return false
	}
}

// Write hands packets on, and does not wait.
func (s *Sender) Write(packets []Packet) error {
	s.feed.write(packets)
	return nil
}

// Flush lets packets be sent that were not yet.
func (s *Sender) Flush() error {
	s.feed.flush()
	return nil
}

// End waits for ten seconds at most until the other end has everything. Packets that it has not
// count as not taken.
func (s *Sender) End(final Accounts) (Accounts, error) {
	if !s.begun {
		return final.Delivered(make(Accounts, len(final))), s.Close()
	}
	s.feed.end(final)
	s.stop()
	s.sending.Wait()
	s.feed.release()
	return final.Delivered(s.feed.taken), nil
}

// Close closes the connection of a Sender that was not begun.
func (s *Sender) Close() error {
	if s.begun || s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// Size is how many bytes were taken. Any goroutine may call it.
func (s *Sender) Size() int64 { return s.feed.size.Load() }
