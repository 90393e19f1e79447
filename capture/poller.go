package capture

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A poller sleeps until there is something to read. Its methods belong to one goroutine, except
// wake.
type poller struct {
	epoll   int
	event   int // an eventfd that wake writes to
	watcher *xdp.Watcher
}

// newPoller watches rings, and interfaces by their indices.
func newPoller(rings []ring, interfaces []int) (*poller, error) {
	p := &poller{epoll: -1, event: -1}
	if err := p.open(rings, interfaces); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) open(rings []ring, interfaces []int) (err error) {
	if p.watcher, err = xdp.Watch(interfaces); err != nil {
		return err
	}
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("make an epoll instance to wait for the rings: %w", err)
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("make an eventfd to end waiting for the rings: %w", err)
	}
	fds := []int{p.event, p.watcher.FD()}
	for _, r := range rings {
		if fd := r.fd(); fd >= 0 {
			fds = append(fds, fd)
		}
	}
	for _, fd := range fds {
		// Edge-triggered, because nobody reads the eventfd: one call of wake ends one wait.
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return fmt.Errorf("add a ring to those that are waited for: %w", err)
		}
	}
	return nil
}

// wait sleeps until a ring asks to be read, an interface has gone, wake was called, or the timeout
// has passed. It returns the index of an interface that has gone, or 0.
func (p *poller) wait(timeout time.Duration) (gone int, err error) {
	var events [8]unix.EpollEvent
	n, err := unix.EpollWait(p.epoll, events[:], int(timeout.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return 0, fmt.Errorf("wait for the rings: %w", err)
	}
	for _, event := range events[:max(n, 0)] {
		if int(event.Fd) == p.watcher.FD() {
			gone = p.watcher.Gone()
		}
	}
	return gone, nil
}

// wake ends the current wait, or the next one. Any goroutine may call it until close.
func (p *poller) wake() {
	one := [8]byte{1}
	unix.Write(p.event, one[:])
}

func (p *poller) close() error {
	var errs []error
	if p.watcher != nil {
		p.watcher.Close()
	}
	for _, fd := range []int{p.epoll, p.event} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
