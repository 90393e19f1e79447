package drops

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// checkPackets is how many packets are lost for each cause.
const checkPackets = 36

// Each cause of loss is brought about, on every kernel: the kernel's counters agree, except about
// the last one, which no tracepoint reports.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		do        func(*network)
		counter   string // has all of the packets; "" = there is none
		unchecked string // reason
		left      string // unexplained
	}{
		{"accept queue", (*network).fillAcceptQueue, "TcpExtListenOverflows", "", ""},
		{"SYN queue", (*network).fillRequestQueue, "TcpExtListenDrops", "", ""},
		{"receive buffer", (*network).fillSocket, "UdpRcvbufErrors", "", ""},
		{"closed port", func(n *network) { n.send(9, checkPackets) }, "UdpNoPorts", "", ""},
		{"closed port of TCP", func(n *network) { n.connect(checkPackets, 9) }, "TcpOutRsts", "NO_SOCKET", ""},
		{"rule for input", (*network).refuseInput, "", "NETFILTER_DROP", ""},
		{"route", (*network).sendAway, "IpExtInNoRoutes", "", ""},
		{"checksum of IP", func(n *network) { n.sendAltered(14 + 10) }, "IpInHdrErrors", "", ""},
		{"checksum of UDP", func(n *network) { n.sendAltered(14 + 20 + 6) }, "UdpInErrors", "", ""},
		{"TTL", (*network).sendLastHop, "IpInHdrErrors", "", ""},
		{"queue", (*network).fillQueue, "out0 qdisc_drops", "", ""},
		{"interface that says nothing", (*network).sendNowhere, "ifb0 rx_dropped", "", "ifb0 rx_dropped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			n.meet()
			m := n.openMeterOf(Options{Interface: n.RxName, Check: true})
			before := n.counters()
			test.do(n)
			rose := uint64(0)
			if test.counter != "" {
				testnet.WaitFor(t, test.counter, func() bool {
					rose = n.counters().Since(before)[test.counter]
					return rose > 0
				})
			}
			c := n.counts(m)
			t.Logf("%d %+v\n%+v\n%+v", rose, n.counters().Since(before), c.Losses, c.Check)
			want := Remainder{Unexplained: []CounterRise{}, Unconfirmed: []LossPackets{}}
			if test.left != "" {
				want.Unexplained = append(want.Unexplained, CounterRise{test.left, checkPackets})
			}
			unchecked := c.Check.Unchecked
			c.Check.Unchecked = nil
			if diff := cmp.Diff(want, *c.Check); diff != "" {
				t.Error(diff)
			}
			reasons := make(map[string]uint64)
			for _, l := range unchecked {
				reasons[l.Reason] += l.Packets
			}
			wanted := make(map[string]uint64)
			if test.unchecked != "" {
				wanted[test.unchecked] = checkPackets
			}
			if diff := cmp.Diff(wanted, reasons); diff != "" {
				t.Errorf("unchecked: %s", diff)
			}
		})
	}
}

// counters reads the receiving side's counters.
func (n *network) counters() lost.Counters {
	n.Helper()
	all := make(lost.Counters)
	n.must(n.Rx.Do(func() error {
		for _, name := range lost.CounterFiles {
			f := lost.OpenCounters(name)
			f.Read(all)
			n.must(f.Close())
		}
		return all.AddDevices()
	}))
	return all
}

// accept listens with this backlog on the receiving side, and returns the port.
func (n *network) accept(backlog int) (port uint16) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		n.must(err)
		n.Cleanup(func() { unix.Close(fd) })
		n.must(unix.Bind(fd, &unix.SockaddrInet4{}))
		n.must(unix.Listen(fd, backlog))
		address, err := unix.Getsockname(fd)
		n.must(err)
		port = uint16(address.(*unix.SockaddrInet4).Port)
		return nil
	}))
	return port
}

// other is a host at the sending side that answers nothing.
var other = testnet.Endpoint{MAC: testnet.TxEndpoint.MAC, IPv4: net.IP{192, 0, 2, 77}}

// connect sends the first packets of connections.
func (n *network) connect(connections int, port uint16) {
	n.Helper()
	testnet.MustKnow(n, n.Rx, n.RxIndex, other)
	for i := range connections {
		n.must(n.sender.Send(testnet.Path{Src: other, Dst: testnet.RxEndpoint}.TCP(testnet.Segment{SrcPort: uint16(2000 + i), DstPort: port, Seq: 1, SYN: true})))
	}
	testnet.WaitHandled(n)
}

// fillAcceptQueue lets one connection wait for accept, which leaves no room for others.
func (n *network) fillAcceptQueue() {
	n.Helper()
	port := n.accept(0)
	n.fillListener(port, 0)
	n.connect(checkPackets, port)
}

// fillRequestQueue leaves connections half open.
func (n *network) fillRequestQueue() {
	n.Helper()
	n.set("ipv4/tcp_syncookies", "0")
	n.set("ipv4/tcp_max_syn_backlog", "8")
	n.connect(checkPackets, n.accept(8))
}

func (n *network) fillSocket() {
	n.Helper()
	n.send(n.listen(testnet.RxEndpoint.IPv4), checkPackets)
}

// refuseInput sends packets for the receiving side, whose firewall refuses them.
func (n *network) refuseInput() {
	n.Helper()
	n.refuse(unix.NF_INET_LOCAL_IN)
	n.send(9, checkPackets)
}

// refuse drops all packets of IPv4 at a hook of the receiving side, as a rule of a firewall does.
func (n *network) refuse(hook link.NetfilterInetHook) {
	n.Helper()
	const drop = 0
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, drop), asm.Return()}})
	if err != nil {
		n.Skipf("this kernel has no programs of netfilter: %v", err)
	}
	defer program.Close()
	n.must(n.Rx.Do(func() error {
		l, err := link.AttachNetfilter(link.NetfilterOptions{Program: program, ProtocolFamily: unix.NFPROTO_IPV4, Hook: hook, Priority: -1})
		n.must(err)
		n.Cleanup(func() { l.Close() })
		return nil
	}))
}

// sendAway sends to a network that the receiving side has no route to.
func (n *network) sendAway() {
	n.Helper()
	n.set("ipv4/ip_forward", "1")
	path := testnet.TxToRx()
	path.Dst.IPv4 = net.IP{203, 0, 113, 9}
	n.sendFrames(path.UDP(1000, 9, make([]byte, 100)))
}

// sendAltered sends packets with another byte at this position. The checksum of UDP is checked
// before the port is.
func (n *network) sendAltered(at int) {
	n.Helper()
	frame := testnet.TxToRx().UDP(1000, 9, make([]byte, 100))
	frame[at] ^= 0xff
	n.sendFrames(frame)
}

func (n *network) sendFrames(frame []byte) {
	n.Helper()
	for range checkPackets {
		n.must(n.sender.Send(frame))
	}
}

// sendLastHop sends packets that must not be forwarded any further.
func (n *network) sendLastHop() {
	n.Helper()
	n.forward(60_000_000)
	path := testnet.TxToRx()
	path.Dst.IPv4 = beyond
	frame := path.UDP(1000, 9, make([]byte, 100))
	const ttl, sum = 14 + 8, 14 + 10
	less := uint32(frame[ttl] - 1)
	frame[ttl] = 1
	corrected := uint32(frame[sum])<<8 + uint32(frame[sum+1]) + less<<8
	corrected += corrected >> 16
	frame[sum], frame[sum+1] = byte(corrected>>8), byte(corrected)
	n.sendFrames(frame)
}

func (n *network) fillQueue() {
	n.Helper()
	n.forward(60_000_000)
	path := testnet.TxToRx()
	path.Dst.IPv4 = beyond
	n.sendFrames(path.UDP(1000, 9, make([]byte, 400)))
}

// sendNowhere sends to an interface that only counts what it loses.
func (n *network) sendNowhere() {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		ifb := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "ifb0"}}
		if err := netlink.LinkAdd(ifb); err != nil {
			n.Skipf("this kernel has no ifb: %v", err)
		}
		address, err := netlink.ParseAddr("198.51.100.1/24")
		n.must(err)
		n.must(netlink.AddrAdd(ifb, address))
		n.must(netlink.LinkSetUp(ifb))
		n.must(netlink.NeighSet(&netlink.Neigh{LinkIndex: ifb.Index, IP: beyond, HardwareAddr: testnet.TxEndpoint.MAC, State: netlink.NUD_PERMANENT}))
		conn, err := net.Dial("udp4", beyond.String()+":9")
		n.must(err)
		defer conn.Close()
		for range checkPackets {
			if _, err := conn.Write([]byte("lost")); err != nil {
				return err
			}
		}
		return nil
	}))
}
