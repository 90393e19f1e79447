package stream

import (
	"net"
	"sync"

	"github.com/xdpcap/xdpcap/internal/peer"
)

// MaxClientsOfOne is how many clients of one peer a [Server] serves at once, so that no peer by
// itself takes the places of all others.
const MaxClientsOfOne = MaxClients / 4

// admissions are the places that clients have taken, by their peers. The zero value has none.
type admissions struct {
	mu   sync.Mutex
	of   map[string]int
	have int
}

// take takes a place, if there is one for this peer.
func (a *admissions) take(peer string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.have == MaxClients || peer != "" && a.of[peer] == MaxClientsOfOne {
		return false
	}
	if a.of == nil {
		a.of = make(map[string]int)
	}
	a.have++
	a.of[peer]++
	return true
}

// give gives a place back.
func (a *admissions) give(peer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.have--
	if a.of[peer]--; a.of[peer] == 0 {
		delete(a.of, peer)
	}
}

// addressOf is the peer of a connection where Options.Peer is nil: a network address; "" for a
// socket in the file system.
func addressOf(conn net.Conn) (name string, admit bool) {
	if p := peer.Network(conn.RemoteAddr()); p.IsValid() {
		return p.String(), true
	}
	return "", true
}
