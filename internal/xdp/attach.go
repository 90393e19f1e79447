package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Attach runs prog on the interface until the link is closed or the process ends, and returns the
// mode it runs in. It never replaces a program: where the interface runs one already, the error is
// an ErrBusy that names it. In mode Auto, generic mode is tried where the driver has no native XDP
// at all. A driver that has it but refuses this program, because of the MTU for example, is an
// ErrNoNative, since generic mode is much slower and should be asked for.
func Attach(prog *ebpf.Program, ifi Interface, mode Mode) (link.Link, Mode, error) {
	if mode != Generic {
		l, err := attachIn(link.XDPDriverMode, prog, ifi)
		switch {
		case err == nil:
			return l, Native, nil
		case errors.Is(err, ErrBusy):
			return nil, mode, err
		case mode == Native || !errors.Is(err, unix.EOPNOTSUPP):
			return nil, mode, refused(prog, ifi, err)
		}
	}
	l, err := attachIn(link.XDPGenericMode, prog, ifi)
	switch {
	case errors.Is(err, ErrBusy):
		return nil, mode, err
	case err != nil:
		return nil, mode, fmt.Errorf("attach an XDP program to %s in generic mode: %w", ifi.Name, err)
	}
	return l, Generic, nil
}

func attachIn(mode link.XDPAttachFlags, prog *ebpf.Program, ifi Interface) (link.Link, error) {
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifi.Index, Flags: mode})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return nil, busy(ifi)
	}
	return l, err
}

// busy returns an ErrBusy that names the program in the way. That program was attached after the
// interface was looked up, because a caller that finds one there does not call Attach.
func busy(ifi Interface) error {
	now, err := InterfaceByName(ifi.Name)
	if err != nil || len(now.Programs) == 0 {
		return Kind(ErrBusy, "%s already runs an XDP program, or did a moment ago: try again", ifi.Name)
	}
	return Kind(ErrBusy, "%s already runs an XDP program, %s, which came just now: try again to capture beside it",
		ifi.Name, now.Programs[0])
}

// refused explains why an interface did not take a program in native mode. The kinds differ because
// generic mode does not help where the interface has gone or the kernel permits nothing.
func refused(prog *ebpf.Program, ifi Interface, err error) error {
	kind := ErrNoNative
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		kind = ErrNotAttachable
	}
	return Kind(kind, "attach an XDP program to %s in native mode: driver %s: %w",
		ifi.Name, ifi.Driver, driverMessage(prog, ifi, err))
}
