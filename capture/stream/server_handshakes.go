package stream

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
)

const (
	// handshakePatience is the timeout of a client's TLS handshake.
	handshakePatience = 5 * time.Second
	// At most maxHandshakes are under way at once, and maxHandshakesOfOne of them from one address.
	maxHandshakes, maxHandshakesOfOne = 64, 8
)

// handshakes are the connections whose TLS handshake is under way. They have their own limits, so
// that handshakes that never end cannot use up MaxClients. When there are too many, the oldest one
// is closed, of the same address if that has too many: it has failed, because a handshake takes
// only some milliseconds.
type handshakes struct {
	mu  sync.Mutex
	all []*handshaking // the oldest first
}

// A handshaking is a connection whose TLS handshake is under way.
type handshaking struct {
	conn  net.Conn
	from  netip.Prefix  // the peer's address; of IPv6, its network of 64 bits
	ended chan struct{} // closed by end
}

// begin adds a connection. If that closes another connection, begin waits for that connection's
// goroutine, which ends at once.
func (h *handshakes) begin(conn net.Conn) *handshaking {
	one := &handshaking{conn, machine.PeerNetwork(conn.RemoteAddr()), make(chan struct{})}
	if closed := h.add(one); closed != nil {
		<-closed.ended
	}
	return one
}

// add adds a connection, and returns the connection that it has closed, or nil.
func (h *handshakes) add(one *handshaking) (closed *handshaking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
	var ofOne []*handshaking
	for _, other := range h.all {
		if other.from == one.from {
			ofOne = append(ofOne, other)
		}
	}
	switch {
	case len(ofOne) > maxHandshakesOfOne:
		closed = ofOne[0]
	case len(h.all) > maxHandshakes:
		closed = h.all[0]
	default:
		return nil
	}
	closed.conn.Close()
	h.remove(closed)
	return closed
}

func (h *handshakes) remove(one *handshaking) {
	h.all = slices.DeleteFunc(h.all, func(other *handshaking) bool { return other == one })
}

func (h *handshakes) end(one *handshaking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(one)
	close(one.ended)
}
