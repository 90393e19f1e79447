package metrics

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// connections limits the number of open connections. If there are too many, or too many of one
// peer, it closes the least recently active one of these, which is rarely in use: a scrape takes
// milliseconds.
type connections struct {
	users *machine.PeerFinder // nil = unknown
	mu    sync.Mutex
	all   []connection // least recently active first
}

type connection struct {
	net.Conn
	peer string // its name: see machine.PeerFinder
}

// The maximum number of connections, and of connections of one peer, so that one client does not
// keep others from scraping.
const maxConnections, maxConnectionsOfOne = 16, 4

// update records a change of a connection's state, for http.Server.ConnState.
func (c *connections) update(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := connection{Conn: conn}
	if i := slices.IndexFunc(c.all, func(other connection) bool { return other.Conn == conn }); i >= 0 {
		changed = c.all[i]
		c.all = slices.Delete(c.all, i, i+1)
	} else if state == http.StateNew {
		changed.peer = c.users.Name(conn)
	}
	if state == http.StateClosed || state == http.StateHijacked {
		return
	}
	c.all = append(c.all, changed)
	var ofPeer []int // indices of its connections
	for i, other := range c.all {
		if other.peer == changed.peer {
			ofPeer = append(ofPeer, i)
		}
	}
	switch {
	case len(ofPeer) > maxConnectionsOfOne:
		c.close(ofPeer[0])
	case len(c.all) > maxConnections:
		c.close(0)
	}
}

func (c *connections) close(index int) {
	c.all[index].Close()
	c.all = slices.Delete(c.all, index, index+1)
}

// checkHost refuses requests over loopback that name another host than this one. A page in a
// browser of this machine can make such requests to its own name, once that resolves to 127.0.0.1,
// and could read the answers (DNS rebinding).
func checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if ok && at.IP.IsLoopback() && !isThisHost(r.Host) {
			http.Error(w, "this address is for requests to localhost, to an IP address, or to the name of this host", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isThisHost reports whether the host of a request, with a port or without, is a name that no other
// host can have. A browser always sends one.
func isThisHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	own, err := os.Hostname()
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && host == strings.ToLower(own)
}
