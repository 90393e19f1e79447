package stream

import (
	"net"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// No peer can use up MaxClients. A peer is an address by default, or a name from Options.Peer.
// Peers that Options.Peer refuses do not count.
func TestServerPeers(t *testing.T) {
	t.Parallel()
	feedTest(t)
	for _, test := range []struct {
		name string
		peer func(net.Conn) (string, bool)
		want ServerAccount
	}{
		{"by address", nil, ServerAccount{Connected: MaxClientsOfOne + 1, Clients: MaxClientsOfOne + 1, Refused: 4}},
		{"all of one name", func(net.Conn) (string, bool) { return "a", true },
			ServerAccount{Connected: MaxClientsOfOne, Clients: MaxClientsOfOne, Refused: 5}},
		{"refused", func(conn net.Conn) (string, bool) {
			return "", machine.PeerNetwork(conn.RemoteAddr()).Addr().String() == "127.0.0.2"
		},
			ServerAccount{Connected: 1, Clients: 1, Refused: MaxClientsOfOne + 4}},
	} {
		l := listen(t)
		s := NewServer(l, nil, Options{Peer: test.peer})
		must(t, s.Begin(describeTwo()))
		for range MaxClientsOfOne + 4 {
			connect(t, l.Addr().String(), 0)
		}
		other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		conn, err := other.Dial("tcp", l.Addr().String())
		must(t, err)
		testnet.WaitFor(t, test.name+": all connections to be admitted or refused", func() bool {
			a := s.Account()
			return a.Clients+a.Refused == MaxClientsOfOne+5 && uint64(a.Connected) == a.Clients
		})
		if got := s.Account(); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
		conn.Close()
		_, err = s.End(make(capture.Accounts, 2))
		must(t, err)
	}
}

// After a client has left, another client of its peer is admitted.
func TestAdmissions(t *testing.T) {
	t.Parallel()
	var a admissions
	for i := range 2 * MaxClientsOfOne {
		if got := a.acquire("a"); got != (i < MaxClientsOfOne) {
			t.Fatalf("place %d: %v", i, got)
		}
	}
	for i := range MaxClients {
		if got := a.acquire(""); got != (i < MaxClients-MaxClientsOfOne) {
			t.Fatalf("place %d of the others: %v", i, got)
		}
	}
	a.release("a")
	if !a.acquire("a") || a.acquire("b") || a.total != MaxClients {
		t.Errorf("%+v", a.of)
	}
}
