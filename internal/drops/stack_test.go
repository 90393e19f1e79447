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
	pair := testnet.MustPair(t, testnet.PairOptions{Addresses: true})
	return &network{t, pair, testnet.MustSender(t, pair)}
}

// newCards is newNetwork with network cards in place of a veth pair.
func newCards(t *testing.T) *network {
	t.Helper()
	pair := testnet.MustCards(t, testnet.PairOptions{Addresses: true})
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

// openSocket opens a UDP socket of the receiving side.
func (n *network) openSocket() (conn *net.UDPConn) {
	n.Helper()
	n.must(n.Rx.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: testnet.RxEndpoint.IPv4})
		return err
	}))
	n.Cleanup(func() { conn.Close() })
	return conn
}

// listen opens a UDP socket that nobody reads, and that has room for few packets.
func (n *network) listen() (port uint16) {
	n.Helper()
	conn := n.openSocket()
	n.must(conn.SetReadBuffer(1))
	return uint16(conn.LocalAddr().(*net.UDPAddr).Port)
}

// isStrange tells whether other processes lost these packets. Of some packets the kernel does not
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

// Packets that the stack throws away are counted by the kernel's reason, once each; those that
// arrive are not.
func TestStackReasons(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	port := n.listen()
	s := n.open()
	const sent = 50
	n.send(9, sent)
	n.send(port, sent)
	n.set("ipv4/conf/all/rp_filter", "1")
	n.set("ipv4/conf/rx0/rp_filter", "1")
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
		if err != nil {
			return err
		}
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

// What a queue on the way out throws away is as many packets as the queue counts.
func TestStackEgress(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	attributes := netlink.QdiscAttrs{LinkIndex: n.RxIndex, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	n.must(n.Rx.Do(func() error { // 1000 bytes per second
		return netlink.QdiscAdd(&netlink.Tbf{QdiscAttrs: attributes, Rate: 1000, Limit: 2000, Buffer: 2_000_000})
	}))
	s := n.open()
	n.must(n.Rx.Do(func() error {
		conn, err := net.Dial("udp4", "192.0.2.1:9")
		if err != nil {
			return err
		}
		defer conn.Close()
		for range 50 {
			conn.Write(make([]byte, 500)) // fails where the queue is full
		}
		return nil
	}))
	found := n.read(s)
	counted := uint64(0)
	n.must(n.Rx.Do(func() error {
		queues, err := netlink.QdiscList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: n.RxIndex}})
		for _, q := range queues {
			counted += uint64(q.Attrs().Statistics.Queue.Drops)
		}
		return err
	}))
	if got := found["QDISC_DROP"] + found["QDISC_OVERLIMIT"]; got != counted || got == 0 {
		t.Errorf("%d packets, the queue counts %d: %v", got, counted, found)
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

// A buffer that holds several packets is counted as several.
func TestStackSegments(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	conn := n.dial(9)
	raw, err := conn.SyscallConn()
	n.must(err)
	raw.Control(func(fd uintptr) {
		n.must(unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 100))
	})
	s := n.open()
	n.write(conn, 1, 1000)
	testnet.WaitHandled(n)
	counts, err := s.Read()
	n.must(err)
	causes := 0
	for c, tally := range counts.Causes {
		if isStrange(c.Reason, c.Location) || c.Device == "" {
			continue
		}
		causes++
		if c.Reason != "NO_SOCKET" || tally.Packets != 10 || tally.Buffers != 1 {
			t.Errorf("%+v %+v, want one buffer of 10 packets", c, tally)
		}
	}
	if causes != 1 {
		t.Errorf("%d causes, want one", causes)
	}
}

// A datagram that came in fragments is lost once, and one that is delivered is not lost.
func TestFragments(t *testing.T) {
	t.Parallel()
	const sent = 10
	n := newNetwork(t)
	port := uint16(0)
	n.must(n.Rx.Do(func() error {
		conn, err := net.ListenPacket("udp4", "192.0.2.2:0")
		if err != nil {
			return err
		}
		n.Cleanup(func() { conn.Close() })
		port = uint16(conn.LocalAddr().(*net.UDPAddr).Port)
		go func() {
			for buf := make([]byte, 10_000); ; {
				if _, _, err := conn.ReadFrom(buf); err != nil {
					return
				}
			}
		}()
		return nil
	}))
	m := n.openMeter()
	n.write(n.dial(port), sent, 4000)
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
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStack(&lo, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	closed, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for range sent { // each of its own socket, whose error nobody has to read
		conn, err := net.Dial("udp4", closed.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("nobody is there"))
		conn.Close()
	}
	testnet.WaitHandled(t)
	counts, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
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
		c := stackCause{Location: uint64(i % 3), Reason: 1, Incoming: uint32(i)}
		c.At.Netns, c.At.Ifindex = 1, uint32(1_000_000+i)
		if i < own {
			c.At.Ifindex = uint32(n.RxIndex)
		}
		slots[0] = stackLoss{Buffers: 1, Packets: 2, Bytes: 100}
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
	want := Tally{entries, 2 * entries, 100 * entries}
	start := time.Now()
	for i, after := range []time.Duration{0, 30 * time.Second, 2 * time.Minute, 4 * time.Minute} {
		n.must(s.forget(start.Add(after)))
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
