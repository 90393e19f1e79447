package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attach runs prog on the interface until the link is closed or the process ends, and returns the
// mode it runs in. It never replaces a program: where the interface runs one already, the error is
// an ErrBusy that names it. In mode Auto the kernel chooses: native mode, or generic mode where the
// driver has no native XDP at all. A driver that has it but refuses this program, because of the
// MTU for example, is an ErrNoNative, since generic mode is much slower and should be asked for.
func Attach(prog *ebpf.Program, ifi Interface, mode Mode) (link.Link, Mode, error) {
	attach := func() (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifi.Index, Flags: attachFlags[mode]})
	}
	l, err := attach()
	if err != nil && !isBusy(err) {
		l, err = attachOnceMore(err, attach)
	}
	switch {
	case isBusy(err):
		return nil, mode, busy(ifi)
	case err != nil:
		return nil, mode, refused(ifi, mode, err)
	}
	l = attached{l}
	if mode != Auto {
		return l, mode, nil
	}
	now, err := netlink.LinkByIndex(ifi.Index)
	if err != nil {
		return nil, mode, errors.Join(fmt.Errorf("ask in which mode %s runs an XDP program: %w", ifi.Name, err), l.Close())
	}
	return l, describe(now).Mode, nil
}

// attached is a link that Close detaches at once: see Detach.
type attached struct{ link.Link }

func (a attached) Close() error { return Detach(a.Link) }

// Detach ends a link and closes it. To close it would not do: the program goes on as long as a copy
// of the descriptor is open, and a child that another goroutine starts has one until its exec. A
// tracer's link, which cannot be detached, is closed only.
func Detach(l link.Link) error {
	err := l.Detach()
	if errors.Is(err, ebpf.ErrNotSupported) {
		err = nil
	}
	return errors.Join(err, l.Close())
}

// attachFlags are those for each mode. Without any, the kernel chooses native mode for a driver
// that has native XDP, whether or not that takes the program, and generic mode for every other
// driver.
var attachFlags = map[Mode]link.XDPAttachFlags{
	Auto:    0,
	Native:  link.XDPDriverMode,
	Generic: link.XDPGenericMode,
}

func isBusy(err error) bool { return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) }

// busy returns an ErrBusy that names the program in the way. That program was attached after the
// interface was looked up, because a caller that finds one there does not call Attach.
func busy(ifi Interface) error {
	now, err := InterfaceByName(ifi.Name)
	if err != nil || len(now.Programs) == 0 {
		return Kind(ErrBusy, "%s already runs an XDP program, or did a moment ago: try again", ifi.Name)
	}
	return Kind(ErrBusy, "%s already runs an XDP program, %s, which came just now: try again",
		ifi.Name, now.Programs[0].WithOwner())
}

// refused explains why an interface did not take a program. The kinds differ because generic mode
// does not help where the interface has gone or the kernel permits nothing.
func refused(ifi Interface, mode Mode, err error) error {
	if mode == Generic {
		return fmt.Errorf("attach an XDP program to %s in generic mode: %w", ifi.Name, err)
	}
	kind := ErrNoNative
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		kind = ErrNotAttachable
	}
	return Kind(kind, "attach an XDP program to %s in native mode: driver %s: %w", ifi.Name, ifi.Driver, err)
}
