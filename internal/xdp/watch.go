package xdp

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Watcher notices when interfaces leave the network namespace: deleted, or moved to another.
// One goroutine may use it at a time.
type Watcher struct {
	fd      int
	handle  *netlink.Handle
	indices map[int]bool
	buf     []byte
}

// Watch watches interfaces by their indices. Close it.
func Watch(indices []int) (*Watcher, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("subscribe to changes of the interfaces: %w", err)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	w := &Watcher{fd: fd, handle: handle, indices: make(map[int]bool), buf: make([]byte, 64<<10)}
	for _, i := range indices {
		w.indices[i] = true
	}
	return w, nil
}

// FD is readable when there is something to ask Gone for.
func (w *Watcher) FD() int { return w.fd }

// Close releases the sockets.
func (w *Watcher) Close() {
	unix.Close(w.fd)
	w.handle.Close()
}

// Gone returns the index of an interface that has left, or 0. It does not block.
func (w *Watcher) Gone() int {
	for {
		n, _, err := unix.Recvfrom(w.fd, w.buf, 0)
		if errors.Is(err, unix.ENOBUFS) { // notices were lost: look for ourselves
			for i := range w.indices {
				if _, err := w.handle.LinkByIndex(i); errors.As(err, new(netlink.LinkNotFoundError)) {
					return i
				}
			}
			continue
		}
		if err != nil {
			return 0
		}
		if i := w.leaver(w.buf[:n]); i != 0 {
			return i
		}
	}
}

func (w *Watcher) leaver(notices []byte) int {
	msgs, err := syscall.ParseNetlinkMessage(notices)
	if err != nil {
		return 0
	}
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_DELLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		info := (*unix.IfInfomsg)(unsafe.Pointer(&m.Data[0]))
		// A bridge says DELLINK, too, of a port that leaves it: in its own family.
		if info.Family == unix.AF_UNSPEC && w.indices[int(info.Index)] {
			return int(info.Index)
		}
	}
	return 0
}
