package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// driverMessage adds the driver's own words to the error of a refused attachment in native mode.
// The bpf system call returns only an error number. Netlink also returns the driver's message (an
// extended acknowledgement), so the attachment is tried a second time over netlink. If that
// succeeds, because the cause has gone meanwhile, it is undone, and the error is the first one.
func driverMessage(prog *ebpf.Program, ifi Interface, refused error) error {
	var errno unix.Errno
	if !errors.As(refused, &errno) {
		return refused
	}
	err := setProgram(ifi, prog.FD(), nl.XDP_FLAGS_DRV_MODE|nl.XDP_FLAGS_UPDATE_IF_NOEXIST)
	switch {
	case err == nil:
		return errors.Join(errno, setProgram(ifi, -1, nl.XDP_FLAGS_DRV_MODE))
	case errors.Is(err, errno):
		return err
	}
	return errno
}

// setProgram sets the XDP program of an interface over netlink; fd -1 takes it away. The error has
// the kernel's message, for which a socket must ask: this has a socket of its own, because the
// netlink package can only ask for messages on all of its sockets together, those of the rest of
// the process included.
func setProgram(ifi Interface, fd int, flags uint32) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer socket.Close()
	if err := errors.Join(socket.SetExtAck(true), socket.SetSendTimeout(&nl.SocketTimeoutTv),
		socket.SetReceiveTimeout(&nl.SocketTimeoutTv)); err != nil {
		return fmt.Errorf("set up a netlink socket: %w", err)
	}
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(ifi.Index)
	request.AddData(header)
	program := nl.NewRtAttr(unix.IFLA_XDP|unix.NLA_F_NESTED, nil)
	program.AddRtAttr(nl.IFLA_XDP_FD, nl.Uint32Attr(uint32(fd)))
	program.AddRtAttr(nl.IFLA_XDP_FLAGS, nl.Uint32Attr(flags))
	request.AddData(program)
	_, err = request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
