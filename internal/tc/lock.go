package tc

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Captures at one interface may be in different containers that share only its
// network namespace. So their locks are port numbers of netlink's user sockets: these belong to the
// namespace, and the kernel frees them when the process dies. Any process in the namespace can take
// these numbers, but can only achieve that a leftover filter stays. Unix sockets would do as well,
// but with one a process in its sandbox could reach services of the machine.

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

// turnLimit is a hundred times as long as attaching takes. A process that keeps the number for
// longer is not xdpcap.
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

// number is a hash between the numbers that the kernel gives to sockets by itself: those below it
// are ids of processes, and those above it negative. Two names of one number are like one name that
// somebody else has taken.
func number(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return 1<<30 | h.Sum32()>>2
}
