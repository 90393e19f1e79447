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
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetworkOf(t, testnet.PairOptions{Addresses: true, IPv6: true})
			m := n.openMeter()
			test.do(n)
			c := n.counts(m)
			for l, tally := range c.Losses {
				t.Logf("loss %+v %+v", l, tally)
				if slices.Contains(test.among, l.Reason+" "+l.Where) {
					t.Errorf("%s in %s is a loss", l.Reason, l.Where)
				}
			}
			found := ""
			for l, tally := range c.Harmless {
				t.Logf("harmless %+v %+v", l, tally)
				if at := l.Reason + " " + l.Where; slices.Contains(test.among, at) {
					found = at
				}
			}
			if found == "" && !slices.Contains(test.among, "") {
				t.Errorf("none of %q", test.among)
			}
		})
	}
}

const harmlessPackets = 40

// sendToOther sends packets to another host's MAC address.
func (n *network) sendToOther() {
	n.Helper()
	path := testnet.TxToRx()
	path.Dst.MAC = net.HardwareAddr{2, 0, 0, 0, 0, 77}
	for range harmlessPackets {
		n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 100))))
	}
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
