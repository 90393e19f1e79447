package capture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// MaxClients is how many clients a [Server] has at once.
const MaxClients = 64

// serverPatience is how long the end of a session waits for the clients of a Server.
const serverPatience = 2 * time.Second

// A Server is an Output that hands each client of a listener a pcapng stream of its own: a header,
// the packets from then on, and at the end the statistics of what this client got. A client that
// does not keep up loses packets, which are counted in its stream; it holds up neither the session
// nor other clients. One that takes nothing for a minute is given up. Memory does not depend on
// what they do: 16 MiB for all of them, and 64 KiB or one packet for each of at most MaxClients.
// Nothing is read from them. The account of a Server has all packets as captured that the session
// captured.
type Server struct {
	feed     *feed
	listener net.Listener
	accepts  sync.WaitGroup
	serves   sync.WaitGroup
	begun    bool
	patience time.Duration   // how long a client may take to say who it is
	admits   context.Context // until Close
	close    context.CancelFunc

	active  atomic.Int64
	clients atomic.Uint64
	refused atomic.Uint64
}

// NewServer returns a Server for a listener, which it closes. The format is always PCAPNG.
func NewServer(l net.Listener, o WriterOptions) *Server {
	o.Format = PCAPNG
	s := &Server{feed: newFeed(o, serverPatience), listener: l, patience: handshakePatience}
	s.admits, s.close = context.WithCancel(context.Background())
	return s
}

// Begin lets clients in.
func (s *Server) Begin(d Description) error {
	if err := s.feed.begin(d); err != nil {
		return err
	}
	s.begun = true
	s.accepts.Go(s.accept)
	return nil
}

// accept lets clients in until the listener is closed.
func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, or a client that has gone already
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if s.active.Add(1) > MaxClients {
			s.active.Add(-1)
			s.refused.Add(1)
			conn.Close()
			continue
		}
		s.serves.Go(func() {
			defer s.active.Add(-1)
			defer conn.Close()
			if handshake(s.admits, conn, s.patience) != nil {
				s.refused.Add(1)
				return
			}
			s.clients.Add(1)
			s.feed.serve(s.feed.join(conn)) // that a client goes is no error
		})
	}
}

// handshakePatience is how long a client may take to say who it is.
const handshakePatience = 5 * time.Second

// handshake finds out who a client of TLS is, and lets a client that has gone be noticed.
func handshake(ctx context.Context, conn net.Conn, patience time.Duration) error {
	inner := conn
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok {
		inner = wrapped.NetConn()
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3})
	}
	shaking, ok := conn.(interface{ HandshakeContext(context.Context) error })
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return shaking.HandshakeContext(ctx)
}

// Write hands packets to the clients. It waits for none of them.
func (s *Server) Write(packets []Packet) error {
	s.feed.write(packets)
	return nil
}

// Flush lets the clients have what they were not given yet.
func (s *Server) Flush() error {
	s.feed.flush()
	return nil
}

// End lets no more clients in, and gives those that there are two seconds to take the rest.
func (s *Server) End(final Accounts) (Accounts, error) {
	if !s.begun {
		return final, s.Close()
	}
	err := s.Close()
	s.feed.end(final)
	s.serves.Wait()
	s.feed.release()
	return final, err
}

// Close lets no more clients in.
func (s *Server) Close() error {
	s.close()
	err := s.listener.Close()
	s.accepts.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close %v: %w", s.listener.Addr(), err)
	}
	return nil
}

// Size is how many bytes all clients have taken together. Any goroutine may call it.
func (s *Server) Size() int64 { return s.feed.size.Load() }

// A ServerAccount says what became of the clients of a Server.
type ServerAccount struct {
	Connected int    // clients that there are
	Clients   uint64 // connections that were let in so far
	Refused   uint64 // connections that were not: there were MaxClients, or the TLS handshake failed
	Lost      uint64 // packets that clients were too slow for, all together
}

// Account is what has become of the clients so far, and complete after End. Any goroutine may call
// it.
func (s *Server) Account() ServerAccount {
	a := ServerAccount{Clients: s.clients.Load(), Refused: s.refused.Load()}
	a.Connected, a.Lost = s.feed.clientsNow()
	return a
}
