package outputs

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// loopback is the address of --serve :PORT.
const loopback = "127.0.0.1"

// openTo is the notice that every client that reaches an address gets all packets. It is nil if
// --serve names no host, because then admit accepts only the capture's owners.
func openTo(serve, host string, ip net.IP) error {
	switch {
	case host == "":
		return nil
	case ip.IsLoopback():
		_, port, _ := net.SplitHostPort(serve)
		return fmt.Errorf("--serve %s: every user of this machine who connects gets every packet: --serve :%s admits only root and yourself, and --serve unix:PATH only the socket's owner",
			serve, port)
	}
	return fmt.Errorf("--serve %s: whoever reaches this address gets every packet: add --tls-cert, --tls-key and --tls-ca, so that only clients with a certificate do", serve)
}

// admit sets the rule about clients of a server on loopback. Clients are distinguished by their
// users, not by their addresses: a user may have any address of loopback. If --serve names no host,
// only the owners of the capture are admitted.
func (s *liveServer) admit(l net.Listener, d *Destinations, options *stream.Options) (err error) {
	host, port, _ := net.SplitHostPort(d.Flags.Live.Serve)
	if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil
	}
	if s.peers, err = machine.NewPeerFinder(l); err != nil && host == "" {
		return fmt.Errorf("only root and you may connect, and this kernel does not say whose a connection is: %w; --serve %s:%s lets every user of this machine connect, --serve unix:PATH the socket's owner",
			err, loopback, port)
	}
	if err != nil {
		return nil // their addresses distinguish them
	}
	owners, refused := d.Flags.Sandbox.Owners(), sync.Once{}
	if host == "" {
		s.where = fmt.Sprintf(", on this machine and for %s only, because %s names no address", usersOf(owners), d.Flags.Live.Serve)
	}
	options.Peer = func(conn net.Conn) (string, bool) {
		if host != "" {
			return s.peers.Name(conn), true
		}
		switch uid, err := s.peers.User(conn); {
		case err == nil && slices.Contains(owners, uid):
			return strconv.Itoa(uid), true
		case err == nil:
			refused.Do(func() {
				d.Notice(fmt.Errorf("--serve :%s: refused a client of user id %d, because it is for %s: --serve %s:%s lets every user of this machine connect", port, uid, usersOf(owners), loopback, port))
			})
		}
		return "", false
	}
	return nil
}

// usersOf names users by their ids.
func usersOf(ids []int) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		if names[i] = fmt.Sprintf("user id %d", id); id == 0 {
			names[i] = "root"
		}
	}
	return strings.Join(names, " and ")
}
