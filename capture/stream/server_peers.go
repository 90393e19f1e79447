package stream

import (
	"net"
	"sync"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// MaxClientsOfOne is how many clients of one peer a [Server] serves at once, so that one peer
// cannot use up MaxClients.
const MaxClientsOfOne = MaxClients / 4

// admissions counts the admitted clients by peer. The zero value is ready to use.
type admissions struct {
	mu    sync.Mutex
	of    map[string]int // by peer
	total int
}

// acquire admits a client of this peer, or returns false if there are too many.
func (a *admissions) acquire(peer string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total == MaxClients || peer != "" && a.of[peer] == MaxClientsOfOne {
		return false
	}
	if a.of == nil {
		a.of = make(map[string]int)
	}
	a.total++
	a.of[peer]++
	return true
}

// release removes a client of this peer.
func (a *admissions) release(peer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total--
	if a.of[peer]--; a.of[peer] == 0 {
		delete(a.of, peer)
	}
}

// addressOf is the default of Options.Peer. It returns the network address of a connection's peer;
// "" for a socket in the file system.
func addressOf(conn net.Conn) (name string, admit bool) {
	if p := machine.PeerNetwork(conn.RemoteAddr()); p.IsValid() {
		return p.String(), true
	}
	return "", true
}
