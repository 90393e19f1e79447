package machine_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// connectTo is set in the process that a test starts, to the address that it connects to.
const connectTo = "PEER_TEST_CONNECT"

func TestMain(m *testing.M) {
	if address := os.Getenv(connectTo); address != "" {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			os.Exit(1)
		}
		conn.Read(make([]byte, 1)) // until the other side closes it
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// mustListen returns a listener, and a PeerFinder for its clients.
func mustListen(t *testing.T, address string) (net.Listener, *machine.PeerFinder) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f, err := machine.NewPeerFinder(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return l, f
}

// The user of a client is found by IPv4 and IPv6, also if one side has an IPv6 socket for IPv4. No
// user is found if the client has closed its end, which the kernel may report as root's.
func TestUser(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ listen, connect string }{
		{"127.0.0.1:0", "127.0.0.1"}, {"[::1]:0", "::1"}, {":0", "127.0.0.1"},
	} {
		l, f := mustListen(t, test.listen)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		client, err := net.Dial("tcp", net.JoinHostPort(test.connect, port))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if uid, err := f.User(conn); uid != os.Getuid() || err != nil {
			t.Errorf("%+v: user %d, %v", test, uid, err)
		}
		client.Close()
		testnet.WaitFor(t, "the client to be gone", func() bool {
			_, err := f.User(conn)
			return errors.Is(err, machine.ErrUnknownPeer)
		})
		conn.Close()
	}
}

// A client of another user is found to be that user's.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	l, f := mustListen(t, "127.0.0.1:0")
	const somebody = 54321
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), connectTo+"="+l.Addr().String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, err := f.User(conn); uid != somebody || err != nil {
		t.Errorf("user %d, %v", uid, err)
	}
	var none *machine.PeerFinder
	if a, b := f.Name(conn), none.Name(conn); a != "user 54321" || b != "127.0.0.1/32" {
		t.Errorf("names %q and %q", a, b)
	}
}
