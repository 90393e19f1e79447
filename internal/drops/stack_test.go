package drops

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/meter"
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
	return newNetworkOf(t, testnet.PairOptions{Addresses: true})
}

func newNetworkOf(t *testing.T, o testnet.PairOptions) *network {
	t.Helper()
	pair := testnet.MustPair(t, o)
	return &network{t, pair, testnet.MustSender(t, pair)}
}

// newCards is newNetwork with network cards in place of a veth pair.
func newCards(t *testing.T) *network {
	t.Helper()
	pair := testnet.MustCards(t, testnet.PairOptions{Addresses: true})
	return &network{t, pair, testnet.MustSender(t, pair)}
}

// must ends the test if there is an error.
var must = testnet.Must

func (n *network) must(err error) {
	n.Helper()
	must(n.T, err)
}

// open begins to count on the receiving interface.
func (n *network) open() (s *stackMeter) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		iface, err := xdp.InterfaceByName(n.RxName)
		n.must(err)
		s, err = openStack(&iface, Options{})
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

// set sets a variable below /proc/sys/net on the receiving side.
func (n *network) set(variable, value string) {
	n.Helper()
	n.must(n.Rx.Do(func() error { return os.WriteFile("/proc/sys/net/"+variable, []byte(value), 0) }))
}

// openSocket opens a UDP socket of the receiving side, which has room for all packets.
func (n *network) openSocket() *net.UDPConn {
	n.Helper()
	return n.openSocketAt(testnet.RxEndpoint.IPv4)
}

func (n *network) openSocketAt(ip net.IP) (conn *net.UDPConn) {
	n.Helper()
	n.must(n.Rx.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: ip})
		return err
	}))
	n.Cleanup(func() { conn.Close() })
	return conn
}

func portOf(conn *net.UDPConn) uint16 { return uint16(conn.LocalAddr().(*net.UDPAddr).Port) }

// listen opens a UDP socket that nobody reads, and that has room for few packets.
func (n *network) listen(ip net.IP) (port uint16) {
	n.Helper()
	conn := n.openSocketAt(ip)
	n.must(conn.SetReadBuffer(1))
	return portOf(conn)
}

// slowDown lets an interface of the receiving side send 1000 bytes per second, after so many.
func (n *network) slowDown(index int, buffer uint32) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		root := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		return netlink.QdiscAdd(&netlink.Tbf{QdiscAttrs: root, Rate: 1000, Limit: 2000, Buffer: buffer})
	}))
}

// queue returns how many packets an interface's queue has sent or holds, and how many it has
// dropped: what `tc -s qdisc` prints.
func (n *network) queue(index int) (forwarded, dropped uint64) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		queues, err := netlink.QdiscList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}})
		for _, q := range queues {
			s := q.Attrs().Statistics
			forwarded += uint64(s.Basic.Packets) + uint64(s.Queue.Qlen)
			dropped += uint64(s.Queue.Drops)
		}
		return err
	}))
	return forwarded, dropped
}

// beyond is a host behind the interface that packets are forwarded to.
var beyond = net.IP{198, 51, 100, 2}

// forward makes the receiving side forward packets to a slow interface, the Tx of the result.
func (n *network) forward(buffer uint32) (out *testnet.Pair) {
	n.Helper()
	out = testnet.MustPair(n, testnet.PairOptions{Tx: n.Rx, TxName: "out0", RxName: "far0"})
	n.set("ipv4/ip_forward", "1")
	n.must(n.Rx.Do(func() error {
		address, err := netlink.ParseAddr("198.51.100.1/24")
		n.must(err)
		return errors.Join(netlink.AddrAdd(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: out.TxIndex}}, address),
			netlink.NeighSet(&netlink.Neigh{LinkIndex: out.TxIndex, IP: beyond, HardwareAddr: testnet.TxEndpoint.MAC, State: netlink.NUD_PERMANENT}))
	}))
	n.slowDown(out.TxIndex, buffer)
	return out
}

// isStrange reports whether other processes lost these packets. Of some packets the kernel does not
// say the namespace, so a test also sees those. They are TCP's, which no test here sends, and what
// a UDP socket still held when it was closed.
func isStrange(reason, location string) bool {
	return strings.HasPrefix(reason, "TCP_") || strings.HasPrefix(location, "tcp_") || location == "udp_destruct_common"
}

// read returns how many packets were lost for each reason.
func (n *network) read(s *stackMeter) map[string]uint64 {
	n.Helper()
	testnet.WaitHandled(n)
	counts, err := s.Read()
	n.must(err)
	found := make(map[string]uint64)
	for c, tally := range counts.Causes {
		n.Logf("%+v %+v", c, tally)
		if isStrange(c.Reason, c.Location) {
			continue
		}
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

// Packets of other interfaces are not counted, in this namespace or in another one with the same
// index.
func TestStackOthers(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	other := newNetwork(t)
	if n.RxIndex != other.RxIndex {
		t.Logf("indexes %d and %d", n.RxIndex, other.RxIndex)
	}
	s := n.open()
	other.send(9, 30)
	n.must(n.Rx.Do(func() error { // through the loopback interface
		conn, err := net.Dial("udp4", "127.0.0.1:9")
		must(t, err)
		defer conn.Close()
		for range 10 {
			conn.Write([]byte("nobody is there")) // or is refused
		}
		return nil
	}))
	if found := n.read(s); found["NO_SOCKET"] != 0 {
		t.Errorf("%d packets of other interfaces are counted", found["NO_SOCKET"])
	}
	n.send(9, 1)
	if found := n.read(s); found["NO_SOCKET"] != 1 {
		t.Errorf("%d packets are counted, want 1", found["NO_SOCKET"])
	}
}

// meet tells each side the other's MAC address, so that no packet waits for ARP.
func (n *network) meet() {
	n.Helper()
	testnet.MustKnow(n, n.Tx, n.TxIndex, testnet.RxEndpoint)
	testnet.MustKnow(n, n.Rx, n.RxIndex, testnet.TxEndpoint)
}

// dial opens a socket on the sending side, to a port of the receiving one.
func (n *network) dial(port uint16) (conn *net.UDPConn) {
	n.Helper()
	n.must(n.Tx.Do(func() (err error) {
		conn, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: testnet.RxEndpoint.IPv4, Port: int(port)})
		return err
	}))
	n.Cleanup(func() { conn.Close() })
	return conn
}

// write sends datagrams of that many bytes. If a port is closed, later calls return an error and
// send nothing.
func (n *network) write(conn *net.UDPConn, datagrams, size int) {
	n.Helper()
	for range datagrams {
		err := error(unix.ECONNREFUSED)
		for errors.Is(err, unix.ECONNREFUSED) {
			_, err = conn.Write(make([]byte, size))
		}
		n.must(err)
	}
}

// A datagram that came in fragments is lost once, and one that is delivered is not lost.
func TestFragments(t *testing.T) {
	t.Parallel()
	const sent = 10
	n := newNetwork(t)
	conn := n.openSocket()
	go func() {
		for buf := make([]byte, 10_000); ; {
			if _, _, err := conn.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	m := n.openMeter()
	n.write(n.dial(portOf(conn)), sent, 4000)
	if found := n.losses(m); len(found) != 0 {
		t.Errorf("datagrams that were delivered are lost: %v", found)
	}
	n.write(n.dial(9), sent, 4000)
	if found := n.losses(m); found["stack NO_SOCKET"] != sent || len(found) != 1 {
		t.Errorf("%v, want %d datagrams", found, sent)
	}
}

// In the machine's first network namespace, too, the interface is known. Its inode is a special one
// since Linux 6.18.
func TestStackFirstNamespace(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	const sent = 10
	lo, err := xdp.InterfaceByName("lo")
	must(t, err)
	s, err := openStack(&lo, Options{})
	must(t, err)
	defer s.Close()
	closed, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	closed.Close()
	for range sent { // each of its own socket, whose error nobody has to read
		conn, err := net.Dial("udp4", closed.LocalAddr().String())
		must(t, err)
		conn.Write([]byte("nobody is there"))
		conn.Close()
	}
	testnet.WaitHandled(t)
	counts, err := s.Read()
	must(t, err)
	packets := uint64(0)
	for c, tally := range counts.Causes {
		if c.Reason == "NO_SOCKET" && c.Device == "lo" && c.Namespace != 0 {
			packets += tally.Packets
		}
	}
	if packets < sent { // others may send to closed ports as well
		t.Errorf("%d packets are lost at lo, want %d: %+v", packets, sent, counts.Causes)
	}
}

// Causes that have counted nothing for a minute make room for others. What they counted stays, by
// reason and function; and those of the interface that is asked about keep their entry.
func TestStackForgets(t *testing.T) {
	t.Parallel()
	const entries, own = 3000, 40
	n := newNetwork(t)
	s := n.open()
	n.must(s.link.Close()) // only what is put into the table counts
	table := s.coll.Maps[stackMapCauses]
	slots := make([]stackLoss, ebpf.MustPossibleCPU())
	for i := range entries {
		c := stackCause{Location: uint64(i % 3), Reason: 1}
		c.At.Netns, c.At.Ifindex = 1, uint32(1_000_000+i)
		if i < own {
			c.At.Ifindex, c.Location = uint32(n.RxIndex), uint64(10+i)
		}
		slots[0] = stackLoss{Packets: 2, Bytes: 100}
		n.must(table.Put(&c, slots))
	}
	sum := func() (total Tally, causes int) {
		counts, err := s.Read()
		n.must(err)
		for c, tally := range counts.Causes {
			if isStrange(c.Reason, c.Location) {
				continue
			}
			total.Add(tally)
			if c.Device == meter.Gone {
				causes++
			}
		}
		return total, causes
	}
	want := Tally{Packets: 2 * entries, Bytes: 100 * entries}
	start := time.Now()
	for i, after := range []time.Duration{0, 30 * time.Second, 2 * time.Minute, 4 * time.Minute} {
		n.must(s.evictQuiet(start.Add(after)))
		total, former := sum()
		if total != want || (former > 0) != (i >= 2) || former > 3 {
			t.Errorf("after %v: %+v in all, %d causes of former interfaces", after, total, former)
		}
	}
	left, kept := 0, 0
	var c stackCause
	for all := table.Iterate(); all.Next(&c, &slots); left++ {
		if c.At.Ifindex == uint32(n.RxIndex) {
			kept++
		}
	}
	if left != keptCauses+own || kept != own {
		t.Errorf("%d entries are left, %d of the interface, want %d and %d", left, kept, keptCauses+own, own)
	}
}
