package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/errkind"
)

// Attach runs prog on the interface until the link is closed or the process ends, and returns its
// mode. It never replaces a program: if the interface already runs one, the error is an ErrBusy
// that names it. In mode Auto the kernel chooses native mode, or generic mode if the driver has no
// native XDP at all. If the driver has native XDP but refuses this program, because of the MTU for
// example, the error is an ErrNoNative: generic mode is much slower, so the user must ask for it.
func Attach(prog *ebpf.Program, ifi Interface, mode Mode) (link.Link, Mode, error) {
	attach := func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifi.Index, Flags: attachFlags[mode]})
	}
	before := noteJoining(ifi, joining...)
	l, err := attach()
	if err != nil && !isBusy(err) {
		l, err = attachOnceMore(err, attach)
	}
	lost := before.lost()
	if err != nil {
		err = errors.Join(explainAttach(ifi, mode, err), lost.restore())
		return nil, mode, err
	}
	l = attached{l, lost}
	if mode != Auto {
		return l, mode, nil
	}
	now, err := netlink.LinkByIndex(ifi.Index)
	if err != nil {
		return nil, mode, errors.Join(fmt.Errorf("ask in which mode %s runs an XDP program: %w", ifi.Name, err), l.Close())
	}
	return l, describe(now).Mode, nil
}

// attached is a link whose Close detaches immediately, see Detach, and switches on again what
// attaching has switched off.
type attached struct {
	link.Link
	joining *Joining
}

func (a attached) Close() error { return errors.Join(Detach(a.Link), a.joining.restore()) }

// Detach ends a link and closes it. Closing alone is not enough: the program runs as long as a copy
// of the descriptor is open, and a child that another goroutine starts has a copy until its exec. A
// tracer's link cannot be detached; it is only closed.
func Detach(l link.Link) error {
	err := l.Detach()
	if errors.Is(err, ebpf.ErrNotSupported) {
		err = nil
	}
	return errors.Join(err, l.Close())
}

// attachFlags are the flags for each mode. Without flags, the kernel chooses native mode for a
// driver that has native XDP, even if that refuses the program, and generic mode for all other
// drivers.
var attachFlags = map[Mode]link.XDPAttachFlags{
	Auto:    0,
	Native:  link.XDPDriverMode,
	Generic: link.XDPGenericMode,
}

// explainAttach explains why a program could not be attached.
func explainAttach(ifi Interface, mode Mode, err error) error {
	if isBusy(err) {
		return busy(ifi)
	}
	return refused(ifi, mode, err)
}

func isBusy(err error) bool { return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) }

// busy returns an ErrBusy that names the program in the way. It was attached after the interface
// was looked up: a caller that saw one there would not have called Attach.
func busy(ifi Interface) error {
	now, err := InterfaceByName(ifi.Name)
	if err == nil && len(now.Programs) == 0 {
		upper, ok, err := now.Obstructed(func(Program) bool { return false })
		switch {
		case ok:
			return Below(ifi, upper)
		case err != nil:
			return errkind.Errorf(ErrBusy, "%s, or an interface above it, already runs an XDP program: %w: try again", ifi.Name, err)
		}
	}
	if err != nil || len(now.Programs) == 0 {
		return errkind.Errorf(ErrBusy, "%s already runs an XDP program, or did a moment ago: try again", ifi.Name)
	}
	return errkind.Errorf(ErrBusy, "%s already runs an XDP program, %v, attached just now: try again",
		ifi.Name, now.Programs[0])
}

// Below returns the ErrBelow of an interface below another one that runs an XDP program.
func Below(ifi, upper Interface) error {
	return errkind.Errorf(ErrBelow, "%s is below %s, which runs XDP program %v: the kernel attaches no program below another one", ifi.Name, upper.Name, upper.Programs[0])
}

// refused explains why an interface did not take a program. The kinds differ because generic mode
// does not help if the interface is gone or the kernel permits nothing.
func refused(ifi Interface, mode Mode, err error) error {
	if mode == Generic {
		return fmt.Errorf("attach an XDP program to %s in generic mode: %w", ifi.Name, err)
	}
	kind := ErrNoNative
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		kind = ErrNotAttachable
	}
	driver := "it has no driver"
	if ifi.Driver != "" {
		driver = "driver " + ifi.Driver
	}
	return errkind.Errorf(kind, "attach an XDP program to %s in native mode: %s: %w", ifi.Name, driver, err)
}
