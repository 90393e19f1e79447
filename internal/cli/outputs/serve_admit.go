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

// loopback is where --serve :PORT listens.
const loopback = "127.0.0.1"

// openTo is the notice that anybody who reaches an address gets all packets, or nil. Where --serve
// names no host, admit lets only the capture's owners in.
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

// admit decides by their users which clients a server on loopback admits, and tells them apart by
// their users: all of them may use any address of loopback. Where --serve names no host, only the
// owners of the capture are admitted.
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
		return nil // then their addresses tell them apart
	}
	owners, told := d.Flags.Sandbox.Owners(), sync.Once{}
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
			told.Do(func() {
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
