package drops

import (
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// openWay begins to count what a filter takes on the receiving interface.
func (n *network) openWay(expression string) *Meter {
	n.Helper()
	program, err := filter.Compile(expression, filter.Options{VLANAware: true})
	n.must(err)
	return n.openMeterOf(Options{Interface: n.RxName, Filter: program, FilterText: expression})
}

// wayOf reads a way as text, without what is 0: "XDP came 40 lost 40 drop, stack came 40 elsewhere
// 40". It checks that what came is lost, elsewhere or at the next stage.
func (n *network) wayOf(m *Meter) (text string) {
	n.Helper()
	c := n.counts(m)
	if len(c.Way.Notes) > 0 {
		n.Log(c.Way.Notes)
	}
	if c.Way.Stops[len(c.Way.Stops)-1].Came == nil {
		n.Fatal("what comes to sockets is not counted")
	}
	for i, s := range c.Way.Stops {
		if i > 0 {
			text += ", "
		}
		text += string(s.Stage)
		number := func(what string, t *Tally) uint64 {
			switch {
			case t == nil:
				return 0
			case t.Packets > 0:
				text += fmt.Sprint(" ", what, " ", t.Packets)
			}
			return t.Packets
		}
		lost := s.Lost()
		came, gone := number("came", s.Came), number("lost", &lost)
		for _, l := range slices.SortedFunc(maps.Keys(s.Losses), compareCauses) {
			text += " " + l.Reason
		}
		gone += number("elsewhere", s.Elsewhere)
		if i+1 < len(c.Way.Stops) && s.Came != nil {
			if next := c.Way.Stops[i+1].Came; came != gone+next.Packets {
				n.Errorf("%s: %d packets came, %d are lost or elsewhere, and %d came to the next stage", s.Stage, came, gone, next.Packets)
			}
		}
	}
	return text
}

const wayPackets = 40

// A wayNetwork is a network with what a test of ways is about.
type wayNetwork struct {
	*network
	meter *Meter
	out   *testnet.Pair // nil unless packets are forwarded
}

// The packets that a filter takes are counted at each stage of their way, and lost at the one that
// loses them; others are not counted.
func TestWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, filter string
		send         func(n *wayNetwork)
		want         string // a regular expression
	}{
		{"arrives", "udp dst port 5000", func(n *wayNetwork) { n.listenAt(5000); n.send(5000, wayPackets) },
			"card, stack came 40, socket came 40"},
		{"closed port", "udp dst port 5000", func(n *wayNetwork) { n.send(5000, wayPackets) },
			"card, stack came 40 lost 40 NO_SOCKET, socket"},
		{"firewall", "udp dst port 9", func(n *wayNetwork) { n.refuseInput(); n.send(9, wayPackets-checkPackets) },
			"card, stack came 40 lost 40 NETFILTER_DROP, socket"},
		{"full socket", "udp dst port 5000", func(n *wayNetwork) {
			conn := n.listenAt(5000)
			n.must(conn.SetReadBuffer(1))
			n.send(5000, wayPackets)
		}, "card, stack came 40, socket came 40 lost [1-3]?[0-9] SOCKET_RCVBUFF"},
		{"XDP", "udp dst port 5000", func(n *wayNetwork) { n.send(5000, wayPackets) },
			"card, XDP lost 40 drop, stack, socket"},
		{"XDP generic", "udp dst port 5000", func(n *wayNetwork) { n.send(5000, wayPackets) },
			"card, XDP lost 40 drop, stack, socket"},
		{"ping", "icmp", func(n *wayNetwork) {
			for i := range uint16(wayPackets) {
				n.must(n.sender.Send(testnet.TxToRx().ICMPEcho(false, i)))
			}
		}, "card, stack came 40 elsewhere 40, socket"},
		{"forwarded", "dst host 198.51.100.2", func(n *wayNetwork) {
			path := testnet.TxToRx()
			path.Dst.IPv4 = beyond
			for range wayPackets {
				n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 100))))
			}
		}, "card, stack came 40 elsewhere 40, socket"},
		{"from elsewhere", "udp dst port 5000", func(n *wayNetwork) {
			n.refuse(unix.NF_INET_POST_ROUTING) // these are lost at rx0, and came in on out0
			testnet.MustKnow(n, n.out.Rx, n.out.RxIndex, testnet.Endpoint{MAC: testnet.TxEndpoint.MAC, IPv4: net.IP{198, 51, 100, 1}})
			n.must(n.out.Rx.Do(func() error {
				far := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: n.out.RxIndex}}
				address, err := netlink.ParseAddr("198.51.100.2/24")
				n.must(err)
				n.must(netlink.AddrAdd(far, address))
				n.must(netlink.RouteAdd(&netlink.Route{LinkIndex: n.out.RxIndex, Gw: net.IP{198, 51, 100, 1}}))
				conn, err := net.Dial("udp4", fmt.Sprint(testnet.TxEndpoint.IPv4, ":5000"))
				n.must(err)
				defer conn.Close()
				for range wayPackets {
					conn.Write([]byte("through"))
				}
				return nil
			}))
			testnet.WaitFor(n, "all to be lost", func() bool { return n.losses(n.meter)["stack NETFILTER_DROP"] == wayPackets })
		}, "card, stack, socket"},
		{"other namespace", "udp dst port 5000", func(n *wayNetwork) {
			other := newNetwork(n.T) // whose interface has the same index
			if other.RxIndex != n.RxIndex {
				n.Errorf("indexes %d and %d", n.RxIndex, other.RxIndex)
			}
			other.listenAt(5000)
			other.send(5000, wayPackets)
		}, "card, stack, socket"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := &wayNetwork{network: newNetwork(t)}
			n.meet()
			switch test.name {
			case "XDP":
				n.attach(verdict(xdp.Drop), link.XDPDriverMode)
			case "XDP generic":
				n.attach(verdict(xdp.Drop), link.XDPGenericMode)
			case "forwarded", "from elsewhere":
				n.out = n.forward(60_000_000)
			}
			n.meter = n.openWay(test.filter)
			n.listenAt(78)
			n.send(77, wayPackets) // the filter does not take these
			n.send(78, wayPackets)
			test.send(n)
			if got := n.wayOf(n.meter); !regexp.MustCompile("^" + test.want + "$").MatchString(got) {
				t.Errorf("%s, want %s", got, test.want)
			}
			for l, tally := range n.counts(n.meter).Losses {
				if l.Reason == "NO_SOCKET" && tally.Packets != wayPackets {
					t.Errorf("%+v: %+v", l, tally)
				}
			}
		})
	}
}

// listenAt opens a UDP socket of the receiving side at a port.
func (n *network) listenAt(port int) (conn *net.UDPConn) {
	n.Helper()
	n.must(n.Rx.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: testnet.RxEndpoint.IPv4, Port: port})
		return err
	}))
	n.Cleanup(func() { conn.Close() })
	return conn
}

// What is lost while a meter with a filter begins is not of packets that came.
func TestWayBegins(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				close(stopped)
				return
			default:
				if err := n.sender.Send(testnet.TxToRx().UDP(1000, 5000, nil)); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	m := n.openWay("udp dst port 5000")
	close(stop)
	n.must(<-stopped)
	before := n.counts(m).Way.Stops
	n.send(5000, wayPackets)
	after := n.counts(m).Way.Stops
	came, lost := *after[len(after)-2].Came, after[len(after)-2].Lost()
	came.Subtract(*before[len(before)-2].Came)
	lost.Subtract(before[len(before)-2].Lost())
	if came.Packets != wayPackets || lost.Packets != wayPackets {
		t.Errorf("%d packets came to the stack and %d were lost, want %d each", came.Packets, lost.Packets, wayPackets)
	}
}

// Of a transfer that loses nothing, as many segments come to the socket as to the stack, though the
// stack joins them.
func TestWayOfTCP(t *testing.T) {
	t.Parallel()
	const bytes = 50 << 20
	n := newNetwork(t)
	var listener net.Listener
	n.must(n.Rx.Do(func() (err error) {
		listener, err = net.Listen("tcp4", "192.0.2.2:0")
		return err
	}))
	defer listener.Close()
	m := n.openWay(fmt.Sprint("tcp dst port ", listener.Addr().(*net.TCPAddr).Port))
	n.must(n.Tx.Do(func() error {
		conn, err := net.Dial("tcp4", listener.Addr().String())
		n.must(err)
		go func() {
			conn.Write(make([]byte, bytes))
			conn.Close()
		}()
		return nil
	}))
	conn, err := listener.Accept()
	n.must(err)
	received, err := io.Copy(io.Discard, conn)
	conn.Close()
	if err != nil || received != bytes {
		t.Fatal(received, err)
	}
	n.wayOf(m)
	w := n.counts(m).Way
	stack, socket := w.Stops[1], w.Stops[2]
	const leastSegments = bytes / 1500
	if stack.Came.Packets < leastSegments || stack.Elsewhere.Packets > 1 || stack.Lost() != (Tally{}) || socket.Lost() != (Tally{}) {
		t.Errorf("%+v came, %+v are elsewhere; lost %+v, %+v", stack.Came, stack.Elsewhere, stack.Losses, socket.Losses)
	}
}

// What comes to an XDP program that can be traced is counted, by what the program does with it.
func TestWayTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	n := newNetwork(t)
	n.meet()
	target, err := testnet.AttachTarget(n.Rx, n.RxName, testnet.Hooked)
	n.must(err)
	t.Cleanup(func() { target.Close() })
	n.listenAt(5000)
	m := n.openWay("udp dst portrange 9-11 or udp dst port 5000")
	for _, port := range []uint16{testnet.DropPort, testnet.AbortPort, testnet.TxPort, 5000, 77} {
		n.send(port, wayPackets)
	}
	const want = "card, XDP came 160 lost 80 aborted drop elsewhere 40, stack came 40, socket came 40"
	if diff := cmp.Diff(want, n.wayOf(m)); diff != "" {
		t.Error(diff)
	}
}

// Packets that come to a socket through a device above the interface are counted there, too: behind
// a VLAN, a bridge and a bond.
func TestWayAbove(t *testing.T) {
	t.Parallel()
	for _, upper := range testnet.Uppers {
		t.Run(upper.Name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			upper.MustAdd(t, n.Pair)
			n.listenAt(5000)
			m := n.openWay("udp dst port 5000 or udp dst port 9")
			for range wayPackets {
				for _, port := range []uint16{5000, 9} {
					n.must(n.sender.Send(upper.Frame(testnet.TxToRx().UDP(1000, port, make([]byte, 100)))))
				}
			}
			const want = "card, stack came 80 lost 40 NO_SOCKET, socket came 40"
			if diff := cmp.Diff(want, n.wayOf(m)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
