package drops

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A network is a pair whose receiving side loses packets.
type network struct {
	*testing.T
	*testnet.Pair
	sender *testnet.Sender
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	return &network{t, pair, testnet.MustSender(t, pair)}
}

func (n *network) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// open begins to count on the receiving interface.
func (n *network) open() (s *stackMeter) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		iface, err := xdp.InterfaceByName(n.RxName)
		if err != nil {
			return err
		}
		s, err = openStack(&iface)
		return err
	}))
	n.Cleanup(func() { s.Close() })
	return s
}

// send sends so many UDP packets to this port.
func (n *network) send(port uint16, packets int) {
	n.Helper()
	for range packets {
		n.must(n.sender.Send(testnet.TxToRx().UDP(1000, port, make([]byte, 100))))
	}
}

// run runs a command on the receiving side.
func (n *network) run(command ...string) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", command, err, out)
		}
		return nil
	}))
}

// listen opens a UDP socket that nobody reads, and that has room for few packets.
func (n *network) listen() (port uint16) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		conn, err := net.ListenPacket("udp4", "192.0.2.2:0")
		if err != nil {
			return err
		}
		n.Cleanup(func() { conn.Close() })
		port = uint16(conn.LocalAddr().(*net.UDPAddr).Port)
		return conn.(*net.UDPConn).SetReadBuffer(1)
	}))
	return port
}

// read returns how many packets were lost for each reason.
func (n *network) read(s *stackMeter) map[string]uint64 {
	n.Helper()
	counts, err := s.Read()
	n.must(err)
	found := make(map[string]uint64)
	for c, tally := range counts.Causes {
		n.Logf("%+v %+v", c, tally)
		found[c.Reason] += tally.Packets
		if c.Location == "" || strings.HasPrefix(c.Location, "0x") {
			n.Errorf("%s was lost in function %q", c.Reason, c.Location)
		}
	}
	if counts.Missed > 0 {
		n.Errorf("%d packets are not counted", counts.Missed)
	}
	return found
}

// Packets that the stack throws away are counted by the kernel's reason, once each; those that
// arrive are not.
func TestStackReasons(t *testing.T) {
	n := newNetwork(t)
	port := n.listen()
	s := n.open()
	const sent = 50
	n.send(9, sent)
	n.send(port, sent)
	n.run("sysctl", "-q", "-w", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.rx0.rp_filter=1")
	wrong := testnet.TxToRx()
	wrong.Src.IPv4 = net.IP{198, 51, 100, 1}
	for range sent {
		n.must(n.sender.Send(wrong.UDP(1000, port, nil)))
	}
	found := n.read(s)
	if found["NO_SOCKET"] != sent {
		t.Errorf("%d packets to a closed port, want %d", found["NO_SOCKET"], sent)
	}
	if full := found["SOCKET_RCVBUFF"]; full == 0 || full >= sent {
		t.Errorf("%d packets to a full socket, of %d", full, sent)
	}
}
