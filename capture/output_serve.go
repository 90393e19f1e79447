package capture

import (
	"context"
	"crypto/tls"
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
// what they do: 16 MiB for all of them, and for each of at most MaxClients 64 KiB or one packet,
// and a tenth of what the kernel holds for it. What clients send is thrown away. The account of a
// Server has all packets as captured that the session captured.
type Server struct {
	feed     *feed
	listener net.Listener
	tls      *tls.Config // nil = none
	accepts  sync.WaitGroup
	serves   sync.WaitGroup
	begun    bool
	patience time.Duration // how long a client may take to say who it is
	shaking  handshakes
	admits   context.Context // until Close
	close    context.CancelFunc

	active  atomic.Int64
	clients atomic.Uint64
	refused atomic.Uint64
}

// NewServer returns a Server for a listener, which it closes. With a TLS configuration clients come
// in by TLS alone. The format is always PCAPNG.
func NewServer(l net.Listener, config *tls.Config, o WriterOptions) *Server {
	o.Format = PCAPNG
	s := &Server{feed: newFeed(o, serverPatience), listener: l, tls: config, patience: handshakePatience}
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
		socket, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, or a client that has gone already
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if tcp, ok := socket.(*net.TCPConn); ok { // so that one that has gone is noticed
			tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3})
		}
		conn := newFeedConn(socket)
		if s.tls == nil {
			s.admit(conn)
			continue
		}
		one := s.shaking.begin(socket)
		s.serves.Go(func() {
			err := s.shake(conn)
			s.shaking.end(one)
			if err != nil {
				s.refuse(conn)
				return
			}
			s.admit(conn)
		})
	}
}

// shake finds out who a client is.
func (s *Server) shake(conn *feedConn) error {
	ctx, cancel := context.WithTimeout(s.admits, s.patience)
	defer cancel()
	return conn.secure(ctx, tls.Server(conn.socket, s.tls))
}

// admit serves a client by a goroutine of its own, if there is a place for it.
func (s *Server) admit(conn *feedConn) {
	if s.active.Add(1) > MaxClients {
		s.active.Add(-1)
		s.refuse(conn)
		return
	}
	s.clients.Add(1)
	s.serves.Go(func() {
		defer s.active.Add(-1)
		defer conn.close()
		s.feed.serve(s.feed.join(conn)) // that a client goes is no error
	})
}

// refuse closes a connection that is no client's.
func (s *Server) refuse(conn *feedConn) {
	s.refused.Add(1)
	conn.socket.Close()
}

// Write hands packets to the clients. It waits for none of them.
func (s *Server) Write(packets []Packet) error {
	s.feed.write(packets)
	return nil
}

// Flush lets the clients have what they were not given yet.
func (s *Server) Flush() error {
	s.feed.flushAll()
	return nil
}

// End lets no more clients in, and gives those that there are two seconds to take the rest and to
// close their connections. One where not everything has arrived by then is reset.
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

// Size is how many bytes have arrived at all clients together. Any goroutine may call it.
func (s *Server) Size() int64 { return s.feed.sizeNow() }

// Accounts returns the Server's accounts so far, which are the session's, as session reads them:
// what clients lose is theirs, and in Account.
func (s *Server) Accounts(session func() (Accounts, error)) (Accounts, error) { return session() }

// A ServerAccount says what became of the clients of a Server.
type ServerAccount struct {
	Connected int    // clients that there are
	Clients   uint64 // connections that were let in so far
	Refused   uint64 // connections that were not: there were MaxClients, or the TLS handshake failed
	Lost      uint64 // packets that clients were too slow for, all together; not what one left that has gone
}

// Account is what has become of the clients so far, and complete after End. Any goroutine may call
// it.
func (s *Server) Account() ServerAccount {
	a := ServerAccount{Clients: s.clients.Load(), Refused: s.refused.Load()}
	a.Connected, a.Lost = s.feed.clientsNow()
	return a
}
