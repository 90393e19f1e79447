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
// is closed, preferably of the same address: a legitimate handshake takes only some milliseconds.
type handshakes struct {
	mu  sync.Mutex
	all []*handshaking // the oldest first
}

type handshaking struct {
	conn  net.Conn
	from  netip.Prefix
	ended chan struct{}
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
	own := func(other *handshaking) bool { return other.from == one.from }
	count := 0
	for _, other := range h.all {
		if own(other) {
			count++
		}
	}
	switch {
	case count > maxHandshakesOfOne:
		closed = h.all[slices.IndexFunc(h.all, own)]
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

// end removes a connection.
func (h *handshakes) end(one *handshaking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(one)
	close(one.ended)
}
