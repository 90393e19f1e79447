package ring

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// A poller waits until one of several descriptors is readable. Its methods belong to one goroutine,
// except Wake.
type poller struct {
	epoll int
	event int // an eventfd that Wake writes to
}

// newPoller returns a poller without rings.
func newPoller() (*poller, error) {
	p := &poller{epoll: -1, event: -1}
	if err := p.open(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *poller) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("make an epoll instance to wait for the rings: %w", err)
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("make an eventfd to end waiting for the rings: %w", err)
	}
	return p.Add(p.event)
}

// Add makes Wait return when a descriptor becomes readable. It ignores -1.
func (p *poller) Add(fd int) error {
	if fd < 0 {
		return nil
	}
	// Edge-triggered: the eventfd is never read, and each call of Wake ends only one Wait.
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("add a ring to the epoll instance: %w", err)
	}
	return nil
}

// Wait sleeps until a ring is readable, Wake was called, or the timeout has passed. A signal, such
// as SIGURG of Go's scheduler, does not end it.
func (p *poller) Wait(timeout time.Duration) error {
	var events [8]unix.EpollEvent
	for end := time.Now().Add(timeout); ; timeout = max(0, time.Until(end)) {
		_, err := unix.EpollWait(p.epoll, events[:], int(timeout.Milliseconds()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the rings: %w", err)
		}
	}
}

// Wake ends the current Wait, or the next one. Any goroutine may call it until Close.
func (p *poller) Wake() {
	one := [8]byte{1}
	unix.Write(p.event, one[:])
}

// Close releases the descriptors. It does not close the rings.
func (p *poller) Close() error {
	var errs []error
	for _, fd := range []int{p.epoll, p.event} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
