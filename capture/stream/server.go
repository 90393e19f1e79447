package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture"
)

// MaxClients is how many clients a [Server] serves at once.
const MaxClients = 64

// serverPatience is how long the end of a session waits for the clients of a Server.
const serverPatience = 2 * time.Second

// A Server is an Output that sends each client of a listener its own pcapng stream: a header, the
// packets from then on, and at the end statistics of the packets that this client got. A client
// that does not keep up loses packets, and its stream has their count; it delays neither a live
// session nor other clients. A client that reads no bytes for a minute is dropped. The memory has
// an upper bound: 16 MiB for all clients, and for each of at most MaxClients 64 KiB or one packet,
// plus a tenth of the bytes in the kernel's send buffer. One peer has at most MaxClientsOfOne
// clients. Bytes from clients are discarded. A Server's account counts every packet that the
// session captured as captured.
type Server struct {
	*feed
	listener   net.Listener
	tls        *tls.Config // nil = no TLS
	accepts    sync.WaitGroup
	serves     sync.WaitGroup
	begun      bool
	patience   time.Duration // timeout of a client's TLS handshake
	handshakes handshakes
	peer       func(net.Conn) (string, bool) // Options.Peer
	places     admissions
	open       context.Context // done at Close
	close      context.CancelFunc

	admitted, refused atomic.Uint64 // connections
}

// NewServer returns a Server for a listener, and will close the listener. With a TLS configuration
// clients must use TLS.
func NewServer(l net.Listener, config *tls.Config, o Options) *Server {
	s := &Server{feed: newFeed(o, serverPatience), listener: l, tls: config, patience: handshakePatience, peer: o.Peer}
	if s.peer == nil {
		s.peer = addressOf
	}
	s.open, s.close = context.WithCancel(context.Background())
	return s
}

// Begin starts accepting clients.
func (s *Server) Begin(d capture.Description) error {
	if err := s.feed.begin(d); err != nil {
		return err
	}
	s.begun = true
	s.accepts.Go(s.accept)
	return nil
}

func (s *Server) accept() {
	for {
		socket, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, or the client has already gone away
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if tcp, ok := socket.(*net.TCPConn); ok { // to detect a client that has vanished
			tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3})
		}
		conn := newFeedConn(socket)
		peer, admit := s.peer(socket)
		if !admit {
			s.refuse(conn)
			continue
		}
		if s.tls == nil {
			s.admit(conn, peer)
			continue
		}
		one := s.handshakes.begin(socket)
		s.serves.Go(func() {
			err := s.handshake(conn)
			s.handshakes.end(one)
			if err != nil {
				s.refuse(conn)
				return
			}
			s.admit(conn, peer)
		})
	}
}

func (s *Server) handshake(conn *feedConn) error {
	ctx, cancel := context.WithTimeout(s.open, s.patience)
	defer cancel()
	return conn.secure(ctx, tls.Server(conn.socket, s.tls))
}

// admit serves a client on its own goroutine, unless there are too many.
func (s *Server) admit(conn *feedConn, peer string) {
	if !s.places.acquire(peer) {
		s.refuse(conn)
		return
	}
	s.admitted.Add(1)
	s.serves.Go(func() {
		defer s.places.release(peer)
		defer conn.close()
		s.feed.serve(s.feed.join(conn)) // a client that disconnects is no error
	})
}

// refuse closes a connection that is not admitted.
func (s *Server) refuse(conn *feedConn) {
	s.refused.Add(1)
	conn.socket.Close()
}

// End accepts no more clients, and waits at most two seconds until the connected clients have
// received all packets and closed their connections. A connection on which bytes have not arrived
// by then is reset.
func (s *Server) End(final capture.Accounts) (capture.Accounts, error) {
	if !s.begun {
		return final, s.Close()
	}
	err := s.Close()
	s.feed.end(final)
	s.serves.Wait()
	return final, err
}

// Close stops accepting clients.
func (s *Server) Close() error {
	s.close()
	err := s.listener.Close()
	s.accepts.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close %v: %w", s.listener.Addr(), err)
	}
	return nil
}

// Accounts returns the accounts so far, which are the session's: the result of calling session.
// Account has the packets that clients lose.
func (s *Server) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	return session()
}

// A ServerAccount counts a Server's clients and their losses.
type ServerAccount struct {
	Connected int    // clients now
	Clients   uint64 // connections admitted so far
	Refused   uint64 // connections not admitted: too many, refused by Options.Peer, or failed TLS handshake
	Lost      uint64 // packets lost by slow clients, without those that a client left when it disconnected
}

// Account returns the counts so far; they are final after End. Any goroutine may call it.
func (s *Server) Account() ServerAccount {
	a := ServerAccount{Clients: s.admitted.Load(), Refused: s.refused.Load()}
	a.Connected, a.Lost = s.feed.clientsNow()
	return a
}
