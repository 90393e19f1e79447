package tc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Captures at the egress of one interface may be in different containers that share only its
// network namespace. So their locks are names of abstract Unix sockets: these belong to the
// namespace, and the kernel frees them when the process dies. Any process in the namespace can take
// these names, but can only achieve that a leftover filter stays.

// A claim is a capture's exclusive use of a handle for its filter.
type claim struct{ fd int }

// claimHandle returns nil if another capture has the handle.
func claimHandle(ifindex int, handle uint32) (*claim, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	err = bind(fd, fmt.Sprintf("xdpcap/egress/%d/%x", ifindex, handle))
	if err == nil {
		return &claim{fd}, nil
	}
	unix.Close(fd)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, nil
	}
	return nil, err
}

func (c *claim) release() { unix.Close(c.fd) }

// A turn lets one capture at a time attach or detach, so that none removes the qdisc while another
// adds its filter. It is taken once.
type turn struct {
	fd      int
	ifindex int
}

// newTurn is called in the network namespace of the interface. The other methods are not.
func newTurn(ifindex int) (*turn, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	return &turn{fd, ifindex}, nil
}

// turnLimit is a hundred times as long as attaching takes. A process that keeps the name for longer
// is not xdpcap.
const turnLimit = 2 * time.Second

// wait waits for this capture's turn, for at most turnLimit.
func (t *turn) wait() {
	for begin := time.Now(); time.Since(begin) < turnLimit; time.Sleep(2 * time.Millisecond) {
		if err := bind(t.fd, fmt.Sprintf("xdpcap/egress/%d", t.ifindex)); !errors.Is(err, unix.EADDRINUSE) {
			return
		}
	}
}

func (t *turn) end() { unix.Close(t.fd) }

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}

// bind takes an abstract name, which begins with a zero byte.
func bind(fd int, name string) error {
	return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}))
}
