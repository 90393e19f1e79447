package drops

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Each cause that is no loss is brought about, on every kernel: what the kernel reports then is in
// Harmless, and in none of the losses.
func TestHarmless(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		do    func(*network)
		among []string // reason and function; the kernel has one of these
	}{
		{"for another host", (*network).sendToOther, []string{"OTHERHOST ip_rcv_core"}},
		{"multicast that nobody has joined", (*network).sendToGroup, []string{"NOT_SPECIFIED ip6_mc_input"}},
		{"a packet socket without room", (*network).fillPacketSocket, []string{"PACKET_SOCK_ERROR packet_rcv", "NOT_SPECIFIED packet_rcv"}},
		{"a socket that is closed", (*network).closeFull, []string{"QUEUE_PURGE skb_queue_purge_reason", "NOT_SPECIFIED skb_queue_purge"}},
		{"a UDP socket that is closed", (*network).closeUDP, []string{"NOT_SPECIFIED udp_destruct_common"}},
		{"a service of the network that nobody here uses", (*network).sendToService, []string{"NOT_SPECIFIED ip_rcv_finish_core"}},
		{"broadcast to a port that nobody listens to", (*network).sendToAll, []string{"NOT_SPECIFIED __udp4_lib_rcv", "NOT_SPECIFIED __udp4_lib_mcast_deliver"}},
		{"LLDP", (*network).sendLLDP, []string{"UNHANDLED_PROTO __netif_receive_skb_core", "UNHANDLED_PROTO __netif_receive_skb_core.constprop.0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetworkOf(t, testnet.PairOptions{Addresses: true, IPv6: true})
			m := n.openMeter()
			test.do(n)
			found := ""
			testnet.WaitFor(t, "the packets", func() bool { // the kernel may free a closed socket later
				c := n.counts(m)
				for l := range c.Losses {
					if slices.Contains(test.among, l.Reason+" "+l.Where) {
						t.Errorf("%s in %s is a loss", l.Reason, l.Where)
					}
				}
				for l := range c.Harmless {
					if at := l.Reason + " " + l.Where; slices.Contains(test.among, at) {
						found = at
					}
				}
				return found != ""
			})
		})
	}
}

// A frame for this host in a VLAN that no interface has is lost, although the kernel's reason is
// that it is another host's.
func TestUnknownVLAN(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	m := n.openMeter()
	frame := testnet.TxToRx().UDP(1000, 9, make([]byte, 100))
	tagged := slices.Concat(frame[:12], []byte{0x81, 0, 0, 77}, frame[12:])
	for range harmlessPackets {
		n.must(n.sender.Send(tagged))
	}
	if found := n.losses(m); found["stack OTHERHOST"] != harmlessPackets {
		t.Errorf("%v, want %d for another host", found, harmlessPackets)
	}
}

const harmlessPackets = 40

// closeUDP closes a UDP socket that still has packets.
func (n *network) closeUDP() {
	n.Helper()
	conn := n.openSocket()
	n.send(portOf(conn), harmlessPackets)
	testnet.WaitHandled(n)
	n.must(conn.Close())
}

// sendToService sends packets to the address of mDNS.
func (n *network) sendToService() {
	path := testnet.TxToRx()
	path.Dst.MAC, path.Dst.IPv4 = net.HardwareAddr{1, 0, 0x5e, 0, 0, 0xfb}, net.IP{224, 0, 0, 251}
	n.sendTo(path)
}

func (n *network) sendToAll() {
	path := testnet.TxToRx()
	path.Dst.MAC, path.Dst.IPv4 = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, net.IP{255, 255, 255, 255}
	n.sendTo(path)
}

func (n *network) sendTo(path testnet.Path) {
	n.Helper()
	for range harmlessPackets {
		n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 100))))
	}
}

func (n *network) sendLLDP() {
	n.Helper()
	frame := testnet.TxToRx().UDP(1000, 9, make([]byte, 100))
	copy(frame, []byte{1, 0x80, 0xc2, 0, 0, 0x0e})
	binary.BigEndian.PutUint16(frame[12:], 0x88cc)
	for range harmlessPackets {
		n.must(n.sender.Send(frame))
	}
}

// sendToOther sends packets to another host's MAC address.
func (n *network) sendToOther() {
	path := testnet.TxToRx()
	path.Dst.MAC = net.HardwareAddr{2, 0, 0, 0, 0, 77}
	n.sendTo(path)
}

// sendToGroup sends packets to a multicast group that has no members.
func (n *network) sendToGroup() {
	n.Helper()
	path := testnet.TxToRx()
	path.Dst.MAC = net.HardwareAddr{0x33, 0x33, 0, 0, 0x12, 0x34}
	path.Dst.IPv6 = net.ParseIP("ff02::1234")
	for range harmlessPackets {
		n.must(n.sender.Send(path.UDPv6(1000, 9, make([]byte, 100))))
	}
}

// fillPacketSocket opens a packet socket that nobody reads, and sends it more than it has room for.
// No protocol but this socket takes the packets: else the kernel frees them only where the protocol
// has done with them. A socket with a ring in shared memory is not tried: it reports what finds the
// ring full as consumed, except where two CPUs come at once.
func (n *network) fillPacketSocket() {
	n.Helper()
	fd := n.packetSocket()
	n.Cleanup(func() { unix.Close(fd) })
	n.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
	frame := testnet.TxToRx().UDP(1000, 9, make([]byte, 100))
	binary.BigEndian.PutUint16(frame[12:], 0x88b5) // for experiments
	for range harmlessPackets {
		n.must(n.sender.Send(frame))
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// packetSocket opens a packet socket on the receiving interface, which the caller closes.
func (n *network) packetSocket() (fd int) {
	n.Helper()
	n.must(n.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		return err
	}))
	n.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: n.RxIndex}))
	return fd
}

// closeFull closes sockets that still have packets.
func (n *network) closeFull() {
	n.Helper()
	fd := n.packetSocket()
	defer unix.Close(fd)
	n.send(portOf(n.openSocket()), harmlessPackets)
	testnet.WaitHandled(n)
}
