package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// If the stamping of a card was changed, the capability to restore it is kept, and nothing else:
// the capture still becomes the user with whose rights its files were tried.
func TestKeepCards(t *testing.T) {
	t.Parallel()
	o := Sandbox{}
	if os.Geteuid() == 0 {
		o.user = "nobody"
	}
	if err := o.Plan(""); err != nil {
		t.Fatal(err)
	}
	who := o.box.User
	o.KeepNetAdmin("put back how the card stamps packets")
	if len(o.box.Keep) != 1 || o.box.Keep[0] != unix.CAP_NET_ADMIN || o.box.User != who {
		t.Errorf("%+v", o.box)
	}
	if want := ", CAP_NET_ADMIN alone, to put back how the card stamps packets, may"; !strings.Contains(o.String(), want) {
		t.Error(o.String())
	}
	o.KeepNetAdmin("remove the filter of clsact")
	o.KeepNetAdmin("remove the filter of clsact")
	if want := " packets and to remove the filter of clsact, may"; !strings.Contains(o.String(), want) || len(o.box.Keep) != 1 {
		t.Error(o.String())
	}
	off := Sandbox{off: true}
	off.KeepNetAdmin("put back how the card stamps packets")
	if off.box != nil {
		t.Errorf("%+v", off.box)
	}
}

// A process with a file of FUSE knows it, since as another user it could not go on with that file.
// Serial: it looks at all descriptors of the process.
func TestHasFUSE(t *testing.T) {
	testnet.RequireRoot(t)
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs FUSE: ", err)
	}
	defer server.Close()
	dir := t.TempDir()
	testnet.MustMount(t, "fuse", dir, 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd()))
	go serveFUSE(int(server.Fd())) // before the mount the kernel has no requests, and refuses to be asked
	if hasFUSE() {
		t.Error("before anything is open")
	}
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if !hasFUSE() {
		t.Error("with an open directory")
	}
}

// serveFUSE answers what the kernel asks when a file system begins, and where it is looked at, by
// fuse(4). It returns when the file system is unmounted.
func serveFUSE(fd int) {
	const initialize, statfs = 26, 17
	for request := make([]byte, 1<<17); ; {
		n, err := unix.Read(fd, request)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOENT) { // the request was taken back
			continue
		}
		if err != nil || n < 40 { // struct fuse_in_header
			return
		}
		body := make([]byte, 0, 80)
		switch binary.NativeEndian.Uint32(request[4:]) {
		case initialize:
			body = body[:64] // struct fuse_init_out
			binary.NativeEndian.PutUint32(body, 7)
			binary.NativeEndian.PutUint32(body[4:], 31)
		case statfs:
			body = body[:80]
		}
		answer := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body))) // struct fuse_out_header
		answer = binary.NativeEndian.AppendUint32(answer, 0)
		answer = append(append(answer, request[8:16]...), body...)
		unix.Write(fd, answer)
	}
}
