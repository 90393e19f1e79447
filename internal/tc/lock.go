package tc

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Captures at one interface may be in different containers that share only its network namespace.
// So their locks are port numbers of netlink's user sockets: these belong to the namespace, and the
// kernel frees them when the process dies. Any process in the namespace can bind these numbers, but
// that only keeps leftover filters from being removed. Unix sockets would need a permission in the
// sandbox with which a process could reach services of the machine.

// A claim is a capture's exclusive use of a handle for its filter.
type claim struct{ fd int }

// claimHandle returns nil if another capture has the handle on this side of the interface.
func claimHandle(ifindex int, at Direction, handle uint32) (*claim, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d/%x", ifindex, handle)
	if at == Ingress {
		name += "/" + at.String()
	}
	err = bind(fd, name)
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

// A turn lets one capture at a time attach or detach, so that it does not remove the qdisc while
// another adds its filter. It is taken once.
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

// turnLimit is a hundred times the duration of attaching. A process that holds the lock for longer
// is not xdpcap.
const turnLimit = 2 * time.Second

// wait waits for this capture's turn, for at most turnLimit.
func (t *turn) wait() {
	for begin := time.Now(); time.Since(begin) < turnLimit; time.Sleep(2 * time.Millisecond) {
		if err := bind(t.fd, fmt.Sprint(t.ifindex)); !errors.Is(err, unix.EADDRINUSE) {
			return
		}
	}
}

func (t *turn) end() { unix.Close(t.fd) }

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
	return fd, os.NewSyscallError("socket", err)
}

// bind takes the number of a name.
func bind(fd int, name string) error {
	return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: number(name)}))
}

// number returns a hash from 1<<30 to 1<<31-1. The kernel assigns other numbers to sockets: smaller
// ones, ids of processes, and negative ones. A collision of two names has the effect of a lock that
// another process holds.
func number(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return 1<<30 | h.Sum32()>>2
}
