package xdp

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Names looks up names and counters of interfaces in the network namespace of the thread that
// called OpenNames. Any thread may call it, and it needs no privilege.
type Names struct{ socket *nl.NetlinkSocket }

// OpenNames opens the netlink socket for the queries.
func OpenNames() (*Names, error) {
	s, err := openRouteSocket()
	if err != nil {
		return nil, err
	}
	return &Names{s}, nil
}

// Name returns the name of the interface with this index.
func (n *Names) Name(index int) (string, error) {
	l, err := linkByIndex(n.socket, index)
	if err != nil {
		return "", fmt.Errorf("look up interface number %d: %w", index, err)
	}
	return l.Attrs().Name, nil
}

// Counts are the counters of an interface's driver, and its state.
type Counts struct {
	Received, Sent uint64 // packets
	IsHardware     bool   // the interface is a card, whose driver may count late
	MTU            int    // bytes
	Up             bool   // it is up and has a carrier
}

// Counts returns the counts of the interface with this index.
func (n *Names) Counts(index int) (Counts, error) { return countsOf(n.socket, index) }

func countsOf(socket *nl.NetlinkSocket, index int) (c Counts, err error) {
	l, err := linkByIndex(socket, index)
	if err != nil {
		return c, fmt.Errorf("read the counters of interface number %d: %w", index, err)
	}
	a := l.Attrs()
	if s := a.Statistics; s != nil {
		c.Received, c.Sent = s.RxPackets, s.TxPackets
	}
	c.IsHardware, c.MTU, c.Up = a.ParentDev != "", a.MTU, a.RawFlags&unix.IFF_RUNNING != 0
	return c, nil
}

// Close releases the socket.
func (n *Names) Close() { n.socket.Close() }

// openRouteSocket opens a netlink socket in the network namespace of the calling thread.
func openRouteSocket() (*nl.NetlinkSocket, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return s, nil
}

// linkByIndex is netlink.LinkByIndex without a query for all virtual functions of the driver.
func linkByIndex(socket *nl.NetlinkSocket, index int) (netlink.Link, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Seq: request.Seq, Socket: socket}}
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
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
