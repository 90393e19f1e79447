package streams_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// --serve unix:PATH makes a socket for its owner, under the sandbox, too, and removes it at the
// end. It replaces only a leftover socket.
func TestServeLocal(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	path := filepath.Join(t.TempDir(), "socket")
	abandon(t, path)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--serve", "unix:"+path, "--json")
	stop := systest.Trickle(t, pair)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if out, err := systest.RunIn(t, pair.Rx, systest.Command("read", "-c", "10", "-q", "unix:"+path)); err != nil || strings.Count(out, "\n") != 10 {
		t.Errorf("%v: %s", err, out)
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", "lo", "--serve", "unix:"+path).Wait()
	systest.OneLine(t, status, stderr, "--serve unix:"+path+": another process listens there: ")
	stop()
	testnet.WaitFor(t, "the other process's look to be counted", func() bool {
		clients := systest.CountsOf(t, p, 0).Outputs[0].Clients
		return clients != nil && *clients == 2
	})
	s := systest.Account(t, p.Interrupt())
	if len(s.Outputs) != 1 || s.Outputs[0].Clients == nil || *s.Outputs[0].Clients != 2 || s.Lost != 0 { // the other process has connected, too
		t.Errorf("summary %+v", s)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	testnet.Must(t, os.WriteFile(file, []byte("kept"), 0o600))
	link := file + ".link"
	abandon(t, path)
	testnet.Must(t, os.Symlink(path, link))
	for _, name := range []string{file, link} {
		status, stderr := systest.Start(t, pair.Rx, nil, "-i", "lo", "--serve", "unix:"+name).Wait()
		systest.OneLine(t, status, stderr, "--serve unix:"+name+": there is something else than a socket: ")
	}
	if systest.Contents(t, file) != "kept" {
		t.Error("the file has changed")
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	status, stderr = systest.Start(t, pair.Rx, nil, "-i", "lo", "--serve", "unix:"+file+strings.Repeat("x", 100)).Wait()
	systest.OneLine(t, status, stderr, "the path of a socket has 1 to 107 bytes")
}

// abandon leaves a socket without a listener.
func abandon(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testnet.Must(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

// The socket belongs to the user that the capture becomes.
func TestServeLocalUser(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	path := filepath.Join(systest.DirectoryFor(t, systest.Nobody), "socket")
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--serve", "unix:"+path, "-Z", "nobody")
	if got := systest.OwnerOf(t, path); got != systest.Nobody {
		t.Errorf("the socket belongs to %d", got)
	}
	p.Interrupt()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// Messages explain an address, and that others may connect to it.
func TestServeAddresses(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const anybody = ": whoever reaches this address gets every packet: add --tls-cert, --tls-key and --tls-ca"
	const users = ": every user of this machine who connects gets every packet: --serve :0 admits only root and yourself, and --serve unix:PATH "
	for _, test := range []struct{ serve, listen, says, omits string }{
		{":0", ":0", ", on this machine and for root only, because :0 names no address\n", "gets every packet"},
		{":0", ":0", "/metrics by every address of this machine\n", "gets every packet"},
		{"127.0.0.1:0", "127.0.0.1:0", "--serve 127.0.0.1:0" + users, "reaches this address"},
		{"127.0.0.2:0", "127.0.0.1:0", "clients of tcp://127.0.0.2:", "names no address"},
		{"0.0.0.0:0", "127.0.0.1:0", "--serve 0.0.0.0:0" + anybody, "this machine"},
	} {
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--serve", test.serve, "--listen", test.listen)
		if said := p.Interrupt(); !strings.Contains(said, test.says) || strings.Contains(said, test.omits) {
			t.Errorf("--serve %s: %s", test.serve, said)
		}
	}
}

// --serve :PORT is for the capture's own users. Other users are refused, and a notice names the
// remedy.
func TestServeUsers(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const somebody = 54321
	for _, test := range []struct {
		serve, user, caller string
		uid                 int
		want                string // bytes that a client of the user gets
	}{
		{":0", "root", "", 0, "4"},
		{":0", "root", "", somebody, "0"},
		{":0", "root", "54321", somebody, "4"},
		{":0", "nobody", "", somebody, "0"},
		{":0", "nobody", "", systest.Nobody, "4"},
		{"127.0.0.1:0", "root", "", somebody, "4"},
	} {
		started := systest.Command("-i", pair.RxName, "-Z", test.user, "--serve", test.serve)
		started.Env = append(started.Env, "SUDO_UID="+test.caller, "SUDO_GID="+test.caller)
		p := systest.StartCommand(t, pair.Rx, nil, started).Listening()
		host, port, _ := net.SplitHostPort(systest.Served(t, p))
		cmd := exec.Command("bash", "-c", "head -c 4 </dev/tcp/"+host+"/"+port+" | wc -c")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(test.uid), Gid: uint32(test.uid)}}
		if got, err := systest.RunIn(t, pair.Rx, cmd); strings.TrimSpace(got) != test.want || err != nil {
			t.Errorf("%+v: a client got %s bytes, %v", test, got, err)
		}
		said, refusal := p.Interrupt(), "--serve :0: refused a client of user id 54321, because it is for root"
		if strings.Contains(said, refusal) != (test.want == "0") {
			t.Errorf("%+v: %s", test, said)
		}
	}
}
