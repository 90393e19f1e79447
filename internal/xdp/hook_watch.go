package xdp

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A HookWatch tells which XDP program an interface runs. It knows the interface by its index in the
// network namespace of the thread that called WatchHook: it does not matter which thread looks, or
// whether the interface is renamed. It needs no privilege, and asks the driver for nothing but what
// every `ip link` does. Look may be called concurrently, Close once and last.
type HookWatch struct {
	index  int
	socket *nl.NetlinkSocket
}

// A HookState is what a HookWatch saw.
type HookState struct {
	Name    string // of the interface
	Program uint32 // id of the program that it runs; 0 = none
}

// WatchHook watches the interface with an index. The kernel sends no notice when a program is
// attached, replaced or detached, so the caller looks as often as it wants to know.
func WatchHook(index int) (*HookWatch, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return &HookWatch{index: index, socket: s}, nil
}

// Look returns the state of the hook now. The error is an ErrGone once the interface was deleted or
// moved to another network namespace.
func (w *HookWatch) Look() (HookState, error) {
	l, err := w.link()
	if errors.Is(err, unix.ENODEV) {
		return HookState{}, Kind(ErrGone, "interface number %d was deleted or moved to another network namespace", w.index)
	}
	if err != nil {
		return HookState{}, fmt.Errorf("look up interface number %d: %w", w.index, err)
	}
	a := l.Attrs()
	s := HookState{Name: a.Name}
	if a.Xdp != nil && a.Xdp.Attached {
		s.Program = a.Xdp.ProgId
	}
	return s, nil
}

// link does what netlink.LinkByIndex does, except that it does not have the driver list all virtual
// functions.
func (w *HookWatch) link() (netlink.Link, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Seq: request.Seq, Socket: w.socket}}
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(w.index)
	request.AddData(msg)
	answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, fmt.Errorf("%d answers", len(answers))
	}
	return netlink.LinkDeserialize(nil, answers[0])
}

// Close releases the socket.
func (w *HookWatch) Close() { w.socket.Close() }
