package testnet

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Sender sends frames on an interface through a packet socket, one system call each. Unlike those
// of the Generator, its frames may be as long as the MTU allows, and the receiver need not poll.
// Send may be called concurrently.
type Sender struct {
	file   *os.File
	ifname string
}

// NewSender opens a socket on an interface of a namespace. Needs root.
func NewSender(ns *Namespace, ifname string) (*Sender, error) {
	s := &Sender{ifname: ifname}
	if err := ns.Do(s.open); err != nil {
		return nil, fmt.Errorf("open packet socket on %s: %w", ifname, err)
	}
	return s, nil
}

// open runs inside the namespace.
func (s *Sender) open() error {
	link, err := net.InterfaceByName(s.ifname)
	if err != nil {
		return err
	}
	// With protocol 0 the socket receives no packets. It is non-blocking, so that os.File can wait
	// for it by polling.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	s.file = os.NewFile(uintptr(fd), "packet:"+s.ifname)
	err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: link.Index})
	if err != nil {
		s.file.Close()
		return os.NewSyscallError("bind", err)
	}
	return nil
}

// Send sends one whole Ethernet frame. The error is [unix.EMSGSIZE] for a frame that exceeds the
// MTU, [os.ErrClosed] after Close.
func (s *Sender) Send(frame []byte) error {
	if _, err := s.file.Write(frame); err != nil {
		return fmt.Errorf("send frame of %d bytes: %w", len(frame), err)
	}
	return nil
}

// Close closes the socket.
func (s *Sender) Close() error {
	return s.file.Close()
}
