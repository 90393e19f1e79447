package xdp

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A Discovery finds interfaces in the network namespace of the thread that opened it. Any goroutine
// may receive from Changed; the other methods belong to one goroutine at a time.
type Discovery struct {
	// Changed receives a value after interfaces were added, changed or removed: one value for all
	// changes since the last one was received.
	Changed chan struct{}

	events *os.File // a netlink socket
	done   chan struct{}
}

// OpenDiscovery begins to watch the interfaces of the calling thread's network namespace.
func OpenDiscovery() (*Discovery, error) {
	d := &Discovery{Changed: make(chan struct{}, 1), done: make(chan struct{})}
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("watch for interfaces that come: %w", os.NewSyscallError("socket", err))
	}
	d.events = os.NewFile(uintptr(socket), "netlink")
	if err := unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}); err != nil {
		return nil, errors.Join(fmt.Errorf("watch for interfaces that come: %w", os.NewSyscallError("bind", err)), d.events.Close())
	}
	go d.listen()
	return d, nil
}

// listen turns messages of the kernel into Changed.
func (d *Discovery) listen() {
	defer close(d.done)
	message := make([]byte, 64<<10)
	for {
		// ENOBUFS means that messages were lost, so interfaces have changed, too.
		if _, err := d.events.Read(message); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		d.Notify()
	}
}

// Notify makes Changed receive a value. Any goroutine may call it.
func (d *Discovery) Notify() {
	select {
	case d.Changed <- struct{}{}:
	default:
	}
}

// Enter moves the calling goroutine's thread into a network namespace, and keeps the goroutine on
// that thread. The thread ends with the goroutine.
func Enter(home netns.NsHandle) error {
	runtime.LockOSThread()
	now, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the thread's network namespace: %w", err)
	}
	defer now.Close()
	if now.Equal(home) {
		return nil
	}
	if err := netns.Set(home); err != nil {
		return fmt.Errorf("enter the network namespace of the session: %w", err)
	}
	return nil
}

// Find returns the indices of all interfaces, and the wanted interfaces: in found if their packets
// can be captured, and in bare if they are up and their packets have no Ethernet header. The
// caller's thread must be in the namespace.
func (d *Discovery) Find(wanted func(index int, name string) bool) (all map[int]bool, found, bare []Interface, err error) {
	all = make(map[int]bool)
	accepted, err := Select(func(index int, name string) bool {
		all[index] = true
		return wanted(index, name)
	})
	for _, ifi := range accepted {
		switch obstacle, _ := ifi.Obstacle(); {
		case obstacle == "":
			found = append(found, ifi)
		case ifi.Up:
			bare = append(bare, ifi)
		}
	}
	return all, found, bare, err
}

// Close ends the watch.
func (d *Discovery) Close() error {
	defer func() { <-d.done }()
	return d.events.Close()
}
