package lab

import (
	"encoding/binary"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// port adds another port to the bridge, whose other end is in a namespace of its own.
func (l *lab) port(b *netlink.Bridge) (p *testnet.Pair) {
	l.Helper()
	p = testnet.MustPair(l, testnet.PairOptions{Tx: l.Rx, TxName: "port1", RxName: "far1"})
	l.must(l.Rx.Do(func() error {
		return netlink.LinkSetMaster(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: p.TxIndex}}, b)
	}))
	return p
}

// setPort sets an attribute of a bridge's port, of one byte.
func (l *lab) setPort(index, kind int, value byte) {
	l.Helper()
	l.must(l.Rx.Do(func() error {
		request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		message := nl.NewIfInfomsg(unix.AF_BRIDGE)
		message.Index = int32(index)
		request.AddData(message)
		info := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
		info.AddRtAttr(kind, []byte{value})
		request.AddData(info)
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	}))
}

const (
	stateDisabled = 0
	stateLearning = 2
)

// stranger is an address behind no port of a bridge.
var stranger = net.HardwareAddr{2, 0, 0, 0, 0, 0x55}

var ofBridges = []cause{
	{name: "bridge: port that learns", do: func(l *lab) uint64 {
		l.bridge()
		l.setPort(l.RxIndex, nl.IFLA_BRPORT_STATE, stateLearning)
		return sends(packet{})(l)
	}, found: "stack BRIDGE_INGRESS_STP_STATE br_handle_frame*|stack NOT_SPECIFIED br_handle_frame*", advice: "does not forward"},
	{name: "bridge: for a host behind the same port", do: func(l *lab) uint64 { // which is no loss, but looks like others
		l.bridge()
		l.send(1, ethernet(broadcast, 0x88b5, make([]byte, 100))) // tells the bridge the address
		return sends(packet{to: testnet.TxEndpoint.MAC})(l)
	}, found: "stack NOT_SPECIFIED br_handle_frame_finish|stack NOT_SPECIFIED br_forward", advice: "behind it"},
	{name: "bridge: port that is disabled", do: func(l *lab) uint64 {
		l.bridge()
		l.setPort(l.RxIndex, nl.IFLA_BRPORT_STATE, stateDisabled)
		return sends(packet{})(l)
	}, found: "stack BRIDGE_INGRESS_STP_STATE br_handle_frame*|stack NOT_SPECIFIED br_handle_frame*", advice: "does not forward"},
	{name: "bridge: longer than the MTU of the port", do: func(l *lab) uint64 {
		p := l.port(l.bridge())
		l.must(l.Rx.Do(func() error {
			return netlink.LinkSetMTU(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: p.TxIndex}}, 1000)
		}))
		return l.send(each, ethernet(stranger, 0x88b5, make([]byte, 1200))) // of IP would be cut into pieces
	}, found: "stack NOT_SPECIFIED br_dev_queue_push_xmit|stack PKT_TOO_BIG br_dev_queue_push_xmit", device: "port1", advice: "MTU", culprit: "port1, MTU 1000"},
	{name: "bridge: no port for it", do: func(l *lab) uint64 {
		l.bridge()
		return sends(packet{to: stranger})(l)
	}, found: "stack NO_TX_TARGET br_*|stack NOT_SPECIFIED br_handle_frame_finish", advice: "bridge link"},
	{name: "bridge: locked port", do: func(l *lab) uint64 {
		l.bridge()
		l.setPort(l.RxIndex, nl.IFLA_BRPORT_LEARNING, 0)
		l.setPort(l.RxIndex, brportLocked, 1)
		return sends(packet{})(l)
	}, found: "stack NOT_SPECIFIED br_handle_frame_finish", advice: "bridge"},
	{name: "bridge: VLAN that is not allowed", do: func(l *lab) uint64 {
		l.bridge(func(b *netlink.Bridge) error { return netlink.BridgeSetVlanFiltering(b, true) })
		return l.send(each, testnet.VLAN(packet{}.frame(), 77))
	}, found: "stack BRIDGE_*VLAN* *|stack NOT_SPECIFIED __allowed_ingress|stack NOT_SPECIFIED br_allowed_ingress|stack NOT_SPECIFIED br_handle_frame_finish", advice: "VLAN"},
	{name: "bridge: interface that is down", do: func(l *lab) uint64 {
		b := l.bridge()
		l.must(l.Rx.Do(func() error { return netlink.LinkSetDown(b) }))
		return sends(packet{})(l)
	}, found: "stack BRIDGE_INGRESS_STP_STATE *|stack NOT_SPECIFIED br_*", advice: "does not forward"},
}

const brportLocked = 39 // IFLA_BRPORT_LOCKED

var ofDevices = []cause{
	{name: "macvlan: closed port", do: func(l *lab) uint64 {
		m := l.macvlan()
		l.must(l.Rx.Do(func() error {
			address, err := netlink.ParseAddr("198.51.100.9/24")
			l.must(err)
			return netlink.AddrAdd(m, address)
		}))
		return sends(packet{to: m.HardwareAddr, dst: net.IP{198, 51, 100, 9}})(l)
	}, found: "stack NO_SOCKET *udp*", device: "mac0", advice: "nobody listens", culprit: "for udp 198.51.100.9:9"},
}

// macvlan adds a macvlan above the receiving interface.
func (l *lab) macvlan() *netlink.Macvlan {
	l.Helper()
	m := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "mac0", ParentIndex: l.RxIndex, HardwareAddr: stranger}, Mode: netlink.MACVLAN_MODE_BRIDGE}
	l.must(l.Rx.Do(func() error {
		l.must(netlink.LinkAdd(m))
		return netlink.LinkSetUp(m)
	}))
	return m
}

// tunnel adds a tunnel from the receiving side to the sending one.
func (l *lab) tunnel(t netlink.Link) {
	l.Helper()
	l.must(l.Rx.Do(func() error {
		l.must(netlink.LinkAdd(t))
		return netlink.LinkSetUp(t)
	}))
}

// vxlan is a frame in VXLAN with this number of the network.
func vxlan(flags byte, network uint32) packet {
	h := make([]byte, 8)
	h[0] = flags
	binary.BigEndian.PutUint32(h[4:], network<<8)
	d := append(datagram(4789, 0), h...)
	d = append(d, packet{}.frame()...)
	binary.BigEndian.PutUint16(d[4:], uint16(len(d)))
	return packet{payload: d}
}

func (l *lab) vxlan() {
	l.Helper()
	l.tunnel(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "tunnel0"}, VxlanId: 42, Port: 4789, Learning: true})
}

const fromVXLAN = 8

var ofTunnels = []cause{
	{name: "vxlan: network that is not here", do: func(l *lab) uint64 {
		l.vxlan()
		return sends(vxlan(fromVXLAN, 77))(l)
	}, found: "stack VXLAN_VNI_NOT_FOUND vxlan_rcv|stack NOT_SPECIFIED vxlan_rcv", advice: "VNI"},
	{name: "vxlan: damaged header", do: func(l *lab) uint64 {
		l.vxlan()
		return sends(vxlan(0, 42))(l)
	}, found: "stack VXLAN_INVALID_HDR vxlan_rcv|stack NOT_SPECIFIED vxlan_rcv", advice: "tunnel refused"},
	{name: "vxlan: no remote", of: "tunnel0", do: func(l *lab) uint64 {
		l.vxlan()
		l.must(l.Rx.Do(func() error {
			link, err := netlink.LinkByName("tunnel0")
			l.must(err)
			address, err := netlink.ParseAddr("198.51.100.1/24")
			l.must(err)
			l.must(netlink.AddrAdd(link, address))
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: beyond, HardwareAddr: stranger, State: netlink.NUD_PERMANENT})
		}))
		return l.write("udp4", net.JoinHostPort(beyond.String(), "9"))
	}, found: "egress NO_TX_TARGET vxlan_xmit|egress NOT_SPECIFIED vxlan_xmit|egress VXLAN_NO_REMOTE *", advice: "remote"},
	{name: "ipip: no such tunnel", do: func(l *lab) uint64 {
		l.tunnel(&netlink.Iptun{LinkAttrs: netlink.LinkAttrs{Name: "tunnel0"}, Local: testnet.RxEndpoint.IPv4, Remote: neighbour})
		return sends(packet{protocol: unix.IPPROTO_IPIP, payload: packet{}.frame()[14:]})(l)
	}, found: "stack NOT_SPECIFIED tunnel4_rcv", advice: "tunnel"},
	{name: "gre: no such tunnel", do: func(l *lab) uint64 {
		l.tunnel(&netlink.Gretun{LinkAttrs: netlink.LinkAttrs{Name: "tunnel0"}, Local: testnet.RxEndpoint.IPv4, Remote: neighbour})
		return sends(packet{protocol: unix.IPPROTO_GRE, payload: append([]byte{0, 0, 8, 0}, packet{}.frame()[14:]...)})(l)
	}, found: "stack NOT_SPECIFIED gre_rcv", advice: "tunnel"},
	{name: "VLAN: closed port", do: func(l *lab) uint64 {
		l.tunnel(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "vlan7", ParentIndex: l.RxIndex}, VlanId: 7})
		l.must(l.Rx.Do(func() error {
			link, err := netlink.LinkByName("vlan7")
			l.must(err)
			address, err := netlink.ParseAddr("198.51.100.1/24")
			l.must(err)
			return netlink.AddrAdd(link, address)
		}))
		return l.send(each, testnet.VLAN(packet{dst: net.IP{198, 51, 100, 1}, src: beyond}.frame(), 7))
	}, found: "stack NO_SOCKET *udp*", device: "vlan7", advice: "nobody listens", culprit: "for udp 198.51.100.1:9"},
	{name: "VLAN: another one than its interface has", do: func(l *lab) uint64 {
		l.tunnel(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "vlan7", ParentIndex: l.RxIndex}, VlanId: 7})
		return l.send(each, testnet.VLAN(packet{}.frame(), 8))
	}, found: "stack OTHERHOST ip_rcv_core", advice: "in a VLAN"},
}
