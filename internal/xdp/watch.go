package xdp

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Watcher notices when interfaces leave the network namespace because they are deleted or moved
// to another one. One goroutine may use it at a time.
type Watcher struct {
	fd      int
	handle  *netlink.Handle
	indices map[int]bool
	buf     []byte
}

// Watch watches interfaces by their indices. The caller closes the Watcher.
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

// FD is a file descriptor that is readable when Gone may have an answer. It belongs to the Watcher.
func (w *Watcher) FD() int { return w.fd }

// Close releases the sockets. A second call does nothing.
func (w *Watcher) Close() error {
	if w.handle == nil {
		return nil
	}
	w.handle.Close()
	err := unix.Close(w.fd)
	w.handle, w.fd = nil, -1
	return err
}

// Gone returns the index of a watched interface that has left, or 0. It does not block.
func (w *Watcher) Gone() int {
	for {
		n, _, err := unix.Recvfrom(w.fd, w.buf, 0)
		// The kernel has dropped notices: each interface is looked up instead.
		if errors.Is(err, unix.ENOBUFS) {
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

// leaver returns the index of a watched interface that has left according to the notices, or 0.
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
		// A bridge sends RTM_DELLINK, too, for a port that leaves the bridge, but in the address
		// family AF_BRIDGE.
		if info.Family == unix.AF_UNSPEC && w.indices[int(info.Index)] {
			return int(info.Index)
		}
	}
	return 0
}
