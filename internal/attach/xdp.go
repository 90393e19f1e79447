package attach

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// XDP runs prog at the XDP hook of the interface until the Attachment is closed. It never replaces
// a program: if the interface already runs one, the error is an xdp.ErrBusy that names it. In mode
// Auto the kernel chooses native mode, or generic mode if the driver has no native XDP at all. If
// the driver has native XDP but refuses this program, because of the MTU for example, the error is
// an xdp.ErrNoNative: generic mode is much slower, so the user must request it.
func XDP(ifi xdp.Interface, prog *ebpf.Program, mode packet.Mode) (*Attachment, error) {
	return open(ifi, prog, func(a *Attachment) error {
		a.Mode = mode
		own, err := keep(prog)
		if err != nil {
			return err
		}
		a.check = func() error { return a.watch.CheckRuns(a.Own, a.Own) }
		attach := func() (link.Link, error) {
			return link.AttachXDP(link.XDPOptions{Program: own.Program, Interface: ifi.Index, Flags: attachFlags[a.Mode]})
		}
		joining := xdp.NoteJoining(ifi)
		l, err := attach()
		if err != nil && !isBusy(err) {
			l, err = attachOnceMore(err, attach)
		}
		if err == nil {
			a.links = append(a.links, xdp.Link{Link: l})
		}
		a.SwitchedOff = joining.Lost()
		a.links = append(a.links, a.SwitchedOff, own) // closing SwitchedOff switches the features on again
		a.NeedsNetAdmin = a.SwitchedOff != nil
		if err != nil {
			return explainAttach(ifi, mode, err)
		}
		a.again = func() error {
			err := a.links[0].Close()
			a.links = a.links[1:]
			if err != nil {
				return fmt.Errorf("detach an XDP program from %s: %w", ifi.Name, err)
			}
			l, err := attach()
			if err != nil {
				return explainAttach(ifi, a.Mode, err)
			}
			a.links = slices.Insert(a.links, 0, io.Closer(xdp.Link{Link: l}))
			return nil
		}
		a.replace = func(next *ebpf.Program) error {
			later, err := keep(next)
			if err != nil {
				return err
			}
			if err := a.links[0].(xdp.Link).Update(next); err != nil {
				return errors.Join(fmt.Errorf("replace the XDP program of %s: %w", ifi.Name, err), later.Close())
			}
			*own, *later = *later, *own
			return later.Close()
		}
		if mode != packet.Auto {
			return nil
		}
		state, err := a.watch.Look()
		if err != nil {
			return fmt.Errorf("ask in which mode %s runs an XDP program: %w", ifi.Name, err)
		}
		a.Mode = state.Mode
		return nil
	})
}

// A kept program is a copy that stays open for Again, when the caller has closed the program.
type kept struct{ *ebpf.Program }

func keep(prog *ebpf.Program) (*kept, error) {
	own, err := prog.Clone()
	if err != nil {
		return nil, fmt.Errorf("keep a program open: %w", err)
	}
	return &kept{own}, nil
}

// attachFlags are the flags for each mode. Without flags, the kernel chooses native mode for a
// driver with native XDP, without a fallback if the driver refuses the program, and generic mode
// for all other drivers.
var attachFlags = map[packet.Mode]link.XDPAttachFlags{
	packet.Auto:    0,
	packet.Native:  link.XDPDriverMode,
	packet.Generic: link.XDPGenericMode,
}

// explainAttach explains why a program could not be attached.
func explainAttach(ifi xdp.Interface, mode packet.Mode, err error) error {
	if isBusy(err) {
		return busy(ifi)
	}
	return refused(ifi, mode, err)
}

func isBusy(err error) bool { return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) }

// busy returns an xdp.ErrBusy that names the program in the way. That program was attached after
// the caller had looked up the interface: otherwise it would not have called XDP.
func busy(ifi xdp.Interface) error {
	now, err := xdp.InterfaceByName(ifi.Name)
	if err == nil && len(now.Programs) == 0 {
		upper, ok, err := now.Obstructed(func(xdp.Program) bool { return false })
		switch {
		case ok:
			return Below(ifi, upper)
		case err != nil:
			return message.Errorf(xdp.ErrBusy, "%s, or an interface above it, already runs an XDP program: %w: try again", ifi.Name, err)
		}
	}
	if err != nil || len(now.Programs) == 0 {
		return message.Errorf(xdp.ErrBusy, "%s already runs an XDP program, or did a moment ago: try again", ifi.Name)
	}
	return message.Errorf(xdp.ErrBusy, "%s already runs an XDP program, %v, attached just now: try again",
		ifi.Name, now.Programs[0])
}

// Below returns the xdp.ErrBelow of an interface below another one that runs an XDP program.
func Below(ifi, upper xdp.Interface) error {
	return message.Errorf(xdp.ErrBelow, "%s is below %s, which runs XDP program %v: the kernel attaches no program below another one", ifi.Name, upper.Name, upper.Programs[0])
}

// refused explains why a program could not be attached. It is an xdp.ErrNoNative, to which generic
// mode is a remedy, or an xdp.ErrNotAttachable if the interface is gone or the kernel permits no
// attachment.
func refused(ifi xdp.Interface, mode packet.Mode, err error) error {
	if mode == packet.Generic {
		return fmt.Errorf("attach an XDP program to %s in generic mode: %w", ifi.Name, err)
	}
	kind := xdp.ErrNoNative
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		kind = xdp.ErrNotAttachable
	}
	driver := "it has no driver"
	if ifi.Driver != "" {
		driver = "driver " + ifi.Driver
	}
	return message.Errorf(kind, "attach an XDP program to %s in native mode: %s: %w", ifi.Name, driver, err)
}
