package drops

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// serve accepts connections on the other side, and reads what comes.
func (n *network) serve() (port uint16) {
	n.Helper()
	var listener net.Listener
	n.must(n.Tx.Do(func() (err error) {
		listener, err = net.Listen("tcp", ":0")
		return err
	}))
	n.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	return uint16(listener.Addr().(*net.TCPAddr).Port)
}

// talk opens a connection to the other side.
func (n *network) talk(port uint16) *net.TCPConn {
	n.Helper()
	return n.dialTCP(n.Rx, testnet.TxEndpoint.IPv4, port)
}

func (n *network) dialTCP(from *testnet.Namespace, to net.IP, port uint16) (conn *net.TCPConn) {
	n.Helper()
	n.must(from.Do(func() (err error) {
		conn, err = net.DialTCP("tcp", nil, &net.TCPAddr{IP: to, Port: int(port)})
		return err
	}))
	n.Cleanup(func() { conn.Close() })
	return conn
}

// converse returns this side of a connection whose other side reads.
func (n *network) converse(family string) *net.TCPConn {
	n.Helper()
	switch family {
	case "IPv6":
		return n.dialTCP(n.Rx, testnet.TxEndpoint.IPv6, n.serve())
	case "IPv4":
		return n.talk(n.serve())
	}
	var listener net.Listener
	n.must(n.Rx.Do(func() (err error) {
		listener, err = net.Listen("tcp", ":0") // of IPv6, which takes IPv4, too
		return err
	}))
	n.Cleanup(func() { listener.Close() })
	far := n.dialTCP(n.Tx, testnet.RxEndpoint.IPv4, uint16(listener.Addr().(*net.TCPAddr).Port))
	go io.Copy(io.Discard, far)
	conn, err := listener.Accept()
	n.must(err)
	n.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// transfer sends so many bytes, and waits until the other side has them all.
func (n *network) transfer(conn *net.TCPConn, bytes int) {
	n.Helper()
	_, err := conn.Write(make([]byte, bytes))
	n.must(err)
	testnet.WaitFor(n, "all to be acknowledged", func() bool { return n.info(conn).Unacked == 0 && n.info(conn).Notsent_bytes == 0 })
}

func (n *network) info(conn *net.TCPConn) (info *unix.TCPInfo) {
	n.Helper()
	raw, err := conn.SyscallConn()
	n.must(err)
	n.must(raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	n.must(err)
	return info
}

// sometimes are the instructions of a program that returns `rare` for a tenth of the packets with
// at least 1000 bytes, and `usual` for all others; port says which, 0 = to all ports. isXDP tells
// XDP from tc.
func sometimes(isXDP bool, port uint16, rare, usual int32) asm.Instructions {
	ins := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.LoadMem(asm.R2, asm.R1, 0, asm.Word)} // __sk_buff.len
	if isXDP {
		ins = append(ins, asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), asm.Sub.Reg(asm.R3, asm.R2), asm.Mov.Reg(asm.R2, asm.R3))
	}
	ins = append(ins, asm.JLT.Imm(asm.R2, 1000, "usual"))
	if port != 0 {
		ins = append(ins, asm.LoadAbs(14+20+2, asm.Half), asm.JNE.Imm(asm.R0, int32(port), "usual"))
	}
	return append(ins,
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Imm(asm.R0, 10),
		asm.JNE.Imm(asm.R0, 0, "usual"),
		asm.Mov.Imm(asm.R0, rare),
		asm.Return(),
		asm.Mov.Imm(asm.R0, usual).WithSymbol("usual"),
		asm.Return())
}

// loseAtXDP makes an XDP program of the other side drop some of what it gets: whole buffers, of
// several segments each.
func (n *network) loseAtXDP() {
	n.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "loses", Type: ebpf.XDP, License: "GPL", Instructions: sometimes(true, 0, int32(xdp.Drop), int32(xdp.Pass))})
	n.must(err)
	n.Cleanup(func() { prog.Close() })
	n.must(n.Tx.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: n.TxIndex, Flags: link.XDPGenericMode})
		if err == nil {
			n.Cleanup(func() { l.Close() })
		}
		return err
	}))
}

// What a filter of tc returns for a packet that it throws away, and for one that it has taken: then
// no tracepoint reports a loss, as if the packet had been lost in the network.
const (
	shot  = 2  // TC_ACT_SHOT
	steal = 4  // TC_ACT_STOLEN
	next  = -1 // TC_ACT_UNSPEC: the next filter decides
)

// filter adds a filter of tc that returns a verdict for some of the packets to a port.
func (n *network) filter(ns *testnet.Namespace, index int, parent uint32, port uint16, verdict int32) {
	n.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "loses", Type: ebpf.SchedCLS, License: "GPL", Instructions: sometimes(false, port, verdict, next)})
	n.must(err)
	n.Cleanup(func() { prog.Close() })
	n.must(ns.Do(func() error {
		netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}) // or it is there
		return netlink.FilterAdd(&netlink.BpfFilter{Fd: prog.FD(), Name: "loses", DirectAction: true, FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: parent, Protocol: unix.ETH_P_ALL, Priority: max(1, port), Handle: 1}})
	}))
}

// shortQueue limits what this side can send at once. The queue divides a buffer into segments, and
// takes some of them: those that it does not are sent again.
func (n *network) shortQueue() {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		root := netlink.QdiscAttrs{LinkIndex: n.RxIndex, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
		return netlink.QdiscAdd(&netlink.Tbf{QdiscAttrs: root, Rate: 4_000_000, Limit: 60_000, Buffer: 31250})
	}))
}

// resent returns how many segments TCP has sent again on this side since `before`, by the kernel's
// counters. Before Linux 6.17 the tracepoint does not report what could not be sent.
func (n *network) resent(before map[string]uint64) uint64 {
	n.Helper()
	kernel, err := xdp.KernelTypes().Kernel()
	n.must(err)
	args, err := support.TracepointArguments(kernel, "tcp_retransmit_skb")
	n.must(err)
	now := (&lab{network: n}).kernelCounters()
	sum := now["TcpRetransSegs"] - before["TcpRetransSegs"]
	if args == "*sock, *sk_buff" {
		sum -= now["TcpExtTCPRetransFail"] - before["TcpExtTCPRetransFail"]
	}
	return sum
}

func (n *network) netnsOf(ns *testnet.Namespace) (inode uint32) {
	n.Helper()
	n.must(ns.Do(func() (err error) {
		inode, err = xdp.NetnsInode()
		return err
	}))
	return inode
}

// settle waits until what is sent from now on is known to be sent after all meters were opened.
func (n *network) settle(conn *net.TCPConn) {
	n.Helper()
	time.Sleep(2*time.Duration(n.info(conn).Rto)*time.Microsecond + 100*time.Millisecond)
}

// resentAfter returns how many segments were lost at an interface for reasons that begin like this.
func resentAfter(r *Retransmits, device string, netns uint32, reason string) (segments uint64) {
	for l, tally := range r.Lost {
		if l.Device == device && l.Netns == netns && strings.HasPrefix(l.Reason, reason) {
			segments += tally.Packets
		}
	}
	return segments
}

// exactly measures until nothing is wrong, five times at most. What interrupts certain processes is
// hidden from all programs by some kernels (seen: softirqs on top of threads of process 1, without
// a miss in the program's statistics), and what interrupts the program itself by all of them: then
// TCP has sent more again than is counted, which no second measurement repeats.
func exactly(t *testing.T, measure func(*testing.T) (wrong []string)) {
	t.Helper()
	for range 5 {
		wrong := measure(t)
		if len(wrong) == 0 {
			return
		}
		t.Log(strings.Join(wrong, "\n"))
	}
	t.Error("wrong each time, see above")
}

// Segments that are sent again are as many as the kernel counts. Those that were lost at the
// interface have the reason, and those that were lost elsewhere on this machine have it where all
// interfaces count. Packets of other tests are of other namespaces.
func TestRetransmits(t *testing.T) {
	t.Parallel()
	for _, test := range []lossOfSegments{
		{"queue", "IPv4", (*network).shortQueue, "QDISC_", true},
		{"queue", "IPv6", (*network).shortQueue, "QDISC_", true},
		{"queue", "IPv4 on a socket of IPv6", (*network).shortQueue, "QDISC_", true},
		{"XDP of the other side", "IPv4", (*network).loseAtXDP, "drop", false},
		{"filter of the other side", "IPv6", func(n *network) { n.filter(n.Tx, n.TxIndex, netlink.HANDLE_MIN_INGRESS, 0, shot) }, "TC_INGRESS", false},
	} {
		t.Run(test.name+" "+test.family, func(t *testing.T) {
			t.Parallel()
			exactly(t, test.measure)
		})
	}
}

type lossOfSegments struct {
	name, family string
	lose         func(*network)
	reason       string // the beginning
	here         bool   // at the interface
}

func (l lossOfSegments) measure(t *testing.T) (wrong []string) {
	const enough = 20
	n := newNetworkOf(t, testnet.PairOptions{Addresses: true, IPv6: true})
	conn := n.converse(l.family)
	n.transfer(conn, 1000)
	m, machine := n.openMeterOf(Options{Interface: n.RxName, Retransmits: true}), n.openMeterOf(Options{Retransmits: true})
	namespace := n.openMeterOf(Options{Namespace: true, Retransmits: true})
	n.settle(conn)
	before := (&lab{network: n}).kernelCounters()
	l.lose(n)
	for n.resent(before) < enough {
		n.transfer(conn, 500_000)
	}
	here, all := n.counts(m).Retransmits, n.counts(machine).Retransmits
	resent := n.resent(before)
	t.Logf("%+v; of the machine: %+v; %d by the kernel's counter", here, all, resent)
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if all := n.counts(namespace).Retransmits; all.Segments != resent || l.here == (len(all.Lost) == 0) {
		report("in the network namespace: %+v, want %d segments", all, resent)
	}
	atInterface, lost := resentAfter(here, "", 0, l.reason), resentAfter(all, n.RxName, 0, l.reason)
	if here.Segments != resent || atInterface+here.Elsewhere+here.Unknown != resent {
		report("%d segments, want %d", here.Segments, resent)
	}
	if !l.here {
		lost = resentAfter(all, n.TxName, n.netnsOf(n.Tx), l.reason)
	}
	if (lost == atInterface) != l.here || !l.here && len(here.Lost) > 0 {
		report("%v were lost at the interface, and %v on the machine", here.Lost, all.Lost)
	}
	// The other side tells what has arrived twice: it was not lost, but late. And a bucket of
	// losses may overflow, on a busy machine more often: then a cause is unknown, but not wrong.
	late, unknown, most := uint64(n.info(conn).Dsack_dups), here.Unknown, resent/4
	if !l.here { // then those of other tests are among them
		unknown, most = all.Unknown, all.Segments/4
	}
	if lost > resent || lost+late+unknown+2+resent/20 < resent || unknown > most {
		report("%d of %d segments were lost for %s, %d were late, and %d are unknown", lost, resent, l.reason, late, unknown)
	}
	return wrong
}

// Readings at the same time do not disturb each other, nor the names of devices. Only the race
// detector sees it.
func TestRetransmitsConcurrently(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	conn := n.talk(n.serve())
	n.transfer(conn, 1000)
	m := n.openMeterOf(Options{Interface: n.RxName, Retransmits: true})
	n.settle(conn)
	n.shortQueue()
	for len(n.counts(m).Retransmits.Lost) == 0 {
		n.transfer(conn, 500_000)
	}
	errs := make(chan error)
	const readers, readings = 4, 10
	for range readers {
		go func() {
			errs <- n.Rx.Do(func() (err error) {
				for range readings {
					_, failed := m.Read()
					err = errors.Join(err, failed)
				}
				return err
			})
		}()
	}
	for range readers {
		n.must(<-errs)
	}
}

// What another connection loses is not taken for what is sent again, and what no tracepoint reports
// was not lost here.
func TestRetransmitsOfOthers(t *testing.T) {
	t.Parallel()
	exactly(t, measureOthers)
}

func measureOthers(t *testing.T) (wrong []string) {
	const enough = 10
	n := newNetwork(t)
	lostPort, stolenPort := n.serve(), n.serve()
	lost, stolen := n.talk(lostPort), n.talk(stolenPort)
	n.transfer(lost, 1000)
	n.transfer(stolen, 1000)
	m := n.openMeterOf(Options{Interface: n.RxName, Retransmits: true})
	machine := n.openMeterOf(Options{Retransmits: true})
	n.settle(stolen)
	n.filter(n.Tx, n.TxIndex, netlink.HANDLE_MIN_INGRESS, lostPort, shot)
	n.filter(n.Tx, n.TxIndex, netlink.HANDLE_MIN_INGRESS, stolenPort, steal)
	before := (&lab{network: n}).kernelCounters()
	found := func() uint64 {
		return resentAfter(n.counts(machine).Retransmits, n.TxName, n.netnsOf(n.Tx), "TC_INGRESS")
	}
	for found() < enough || n.info(stolen).Total_retrans < enough {
		for _, conn := range []*net.TCPConn{lost, stolen} {
			_, err := conn.Write(make([]byte, 300_000))
			n.must(err)
		}
		n.transfer(lost, 1)
		n.transfer(stolen, 1)
	}
	here, all := n.counts(m).Retransmits, n.counts(machine).Retransmits
	ofLost, ofStolen := uint64(n.info(lost).Total_retrans), uint64(n.info(stolen).Total_retrans)
	t.Logf("%d and %d: %+v; of the machine: %+v", ofLost, ofStolen, here, all)
	if resent := n.resent(before); here.Segments != resent || here.Elsewhere != resent {
		wrong = append(wrong, fmt.Sprintf("%+v, want %d not lost at the interface", here, resent))
	}
	if found() > ofLost || resentAfter(all, n.TxName, n.netnsOf(n.Tx), "") != found() || all.Elsewhere < ofStolen {
		wrong = append(wrong, fmt.Sprintf("%d were lost, and %d not; want at most %d, and %d", found(), all.Elsewhere, ofLost, ofStolen))
	}
	return wrong
}

// Whether a segment was lost here is not known if it was sent before counting began, if its loss is
// too old to be believed, or if too many others were lost since.
func TestRetransmitsUnknown(t *testing.T) {
	t.Parallel()
	const enough = 20
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t)
		conn := n.talk(n.serve())
		n.transfer(conn, 1000)
		n.meet()
		n.must(n.Tx.Do(func() error {
			address, err := netlink.ParseAddr(testnet.TxEndpoint.IPv4.String() + "/24")
			n.must(err)
			return netlink.AddrDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: n.TxIndex}}, address)
		}))
		_, err := conn.Write(make([]byte, 1000))
		n.must(err)
		m := n.openMeterOf(Options{Interface: n.RxName, Retransmits: true})
		before := n.info(conn).Total_retrans
		testnet.WaitFor(n, "a retransmission", func() bool { return n.info(conn).Total_retrans > before })
		if r := n.counts(m).Retransmits; r.Unknown == 0 || r.Elsewhere > 0 || len(r.Lost) > 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("too old", func(t *testing.T) {
		t.Parallel()
		n := newNetwork(t)
		conn := n.talk(n.serve())
		n.transfer(conn, 1000)
		m := n.openMeterOf(Options{Interface: n.RxName, Retransmits: true, longestHole: 1})
		n.settle(conn)
		n.shortQueue()
		before := (&lab{network: n}).kernelCounters()
		for n.resent(before) < enough {
			n.transfer(conn, 500_000)
		}
		if r := n.counts(m).Retransmits; r.Unknown+r.Elsewhere != r.Segments || r.Unknown < enough/2 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("not seen", func(t *testing.T) {
		var u unseenLosses
		now := time.Now()
		for i, step := range []struct {
			elsewhere, missed uint64
			after             time.Duration
			want              uint64
		}{
			{10, 0, 0, 0},
			{12, 5, time.Second, 2},
			{13, 5, time.Second, 3},
			{19, 5, time.Second, 5},
			{20, 7, time.Second, 6},
			{30, 7, time.Hour, 6}, // it is no longer sent again
		} {
			now = now.Add(step.after)
			if got := u.among(step.elsewhere, step.missed, now); got != step.want {
				t.Errorf("step %d: %d of %d, want %d", i, got, step.elsewhere, step.want)
			}
		}
	})
}
