package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Mode is where in the receive path the kernel runs an XDP program.
type Mode int

const (
	Auto    Mode = iota // native, or generic where the driver has no native XDP
	Native              // in the driver, before the kernel has built a socket buffer
	Generic             // in the kernel's stack, for every driver; slower
	Offload             // on the network card
)

var modeNames = [...]string{"auto", "native", "generic", "offload"}

func (m Mode) String() string { return modeNames[m] }

// ParseMode reads the name of a mode that a program can be attached in.
func ParseMode(s string) (Mode, error) {
	for m := Auto; m <= Generic; m++ {
		if s == modeNames[m] {
			return m, nil
		}
	}
	return Auto, fmt.Errorf("XDP mode %q: must be auto, native or generic", s)
}

// ErrBusy is wrapped by Attach's error where the interface already runs an XDP program.
var ErrBusy = errors.New("already runs an XDP program")

// Attach runs prog on the interface until the link is closed or the process ends, and returns the
// mode it runs in. It never replaces a program: the error wraps ErrBusy then and names it.
func Attach(prog *ebpf.Program, ifi Interface, mode Mode) (link.Link, Mode, error) {
	if mode != Generic {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifi.Index, Flags: link.XDPDriverMode})
		if err == nil {
			return l, Native, nil
		}
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
			return nil, mode, busy(ifi)
		}
		if mode == Native || !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, mode, fmt.Errorf("attach an XDP program to %s in native mode: driver %s: %w; %s",
				ifi.Name, ifi.Driver, refusal(prog, ifi, err), wayOut(err))
		}
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifi.Index, Flags: link.XDPGenericMode})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return nil, mode, busy(ifi)
	}
	if err != nil {
		return nil, mode, fmt.Errorf("attach an XDP program to %s in generic mode: %w", ifi.Name, err)
	}
	return l, Generic, nil
}

// busy is for a program that came between the look-up and the attachment.
func busy(ifi Interface) error {
	now, err := InterfaceByName(ifi.Name)
	if err != nil || len(now.Programs) == 0 {
		return fmt.Errorf("%s %w, or did a moment ago: try again", ifi.Name, ErrBusy)
	}
	return fmt.Errorf("%s %w, %s, which came just now: try again to capture beside it", ifi.Name, ErrBusy, now.Programs[0])
}

func wayOut(err error) string {
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EPERM) {
		return "see `xdpcap interfaces`"
	}
	return "--xdp-mode generic works with every driver, at a lower rate"
}

// refusal adds the driver's own words to the bare number that the bpf system call gives. Only netlink
// passes them on, so the attachment is tried a second time over it; should that succeed, because
// the cause has gone meanwhile, it is undone.
func refusal(prog *ebpf.Program, ifi Interface, bare error) error {
	var errno unix.Errno
	if !errors.As(bare, &errno) {
		return bare
	}
	nl.EnableErrorMessageReporting = true
	dev := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: ifi.Index}}
	const drvOnly = nl.XDP_FLAGS_DRV_MODE | nl.XDP_FLAGS_UPDATE_IF_NOEXIST
	err := netlink.LinkSetXdpFdWithFlags(dev, prog.FD(), drvOnly)
	if err == nil {
		err = netlink.LinkSetXdpFdWithFlags(dev, -1, nl.XDP_FLAGS_DRV_MODE)
		return errors.Join(errno, err)
	}
	if errors.Is(err, errno) {
		return err
	}
	return errno
}
