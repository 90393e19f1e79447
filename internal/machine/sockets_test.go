package machine

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket's process is found by the socket's inode, and a socket that nobody has has none.
func TestSocketOwners(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var socket unix.Stat_t
	if err := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &socket) }); err != nil {
		t.Fatal(err)
	}
	inode := uint32(socket.Ino)
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s[%d]", strings.TrimSpace(string(name)), os.Getpid())
	if got := SocketOwners([]uint32{inode, 1 << 31}); len(got) != 1 || got[inode].String() != want {
		t.Errorf("%v, want %s", got, want)
	}
}
