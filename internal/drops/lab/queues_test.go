package lab

import (
	"errors"
	"net"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// queues is a cause for which a queue of out0 has no room for all of what is forwarded to it.
func queues(make func(index int) error) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		out := l.forward()
		l.must(l.Rx.Do(func() error {
			// A pfifo takes as many as the interface's queue is long.
			l.must(netlink.LinkSetTxQLen(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: out.TxIndex}}, 4))
			err := make(out.TxIndex)
			if errors.Is(err, unix.ENOENT) && !testnet.Emulated() {
				l.Skipf("this kernel has no such queue: %v", err)
			}
			return err
		}))
		sends(packet{dst: beyond, payload: datagram(9, 1000)})(l)
		var dropped uint64
		l.must(l.Rx.Do(func() error {
			all, err := netlink.QdiscList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: out.TxIndex}})
			for _, q := range all {
				if a := q.Attrs(); a.Parent == netlink.HANDLE_ROOT {
					dropped += uint64(a.Statistics.Queue.Drops)
				}
			}
			return err
		}))
		return dropped
	}
}

func root(index int) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
}

// slow lets an interface send 1000 bytes per second, after 3000.
func slow(index int, limit uint32) error {
	return netlink.QdiscAdd(&netlink.Tbf{QdiscAttrs: root(index), Rate: 1000, Limit: limit, Buffer: 3_000_000 * 16})
}

// below adds a queue below one that sends slowly.
func below(child func(netlink.QdiscAttrs) netlink.Qdisc) func(index int) error {
	return func(index int) error {
		if err := slow(index, 1_000_000); err != nil {
			return err
		}
		return netlink.QdiscAdd(child(netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(2, 0), Parent: netlink.MakeHandle(1, 1)}))
	}
}

// refuseAt drops all packets with a program of tc.
func (l *lab) refuseAt(index int, parent uint32) {
	l.Helper()
	program := l.load(ebpf.SchedCLS, asm.Instructions{asm.Mov.Imm(asm.R0, 2)}) // TC_ACT_SHOT
	l.must(l.Rx.Do(func() error {
		clsact := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
		l.must(netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: clsact}))
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:          program.FD(), Name: "loses", DirectAction: true,
		})
	}))
}

// tun makes a tun or tap with room for that many packets, which nobody reads, and the route of
// beyond's network through it.
func (l *lab) tun(mode uint16, room int) (fd int) {
	l.Helper()
	l.must(l.Rx.Do(func() (err error) {
		fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if os.IsNotExist(err) && !testnet.Emulated() {
			l.Skip("this machine has no tun")
		}
		l.must(err)
		l.Cleanup(func() { unix.Close(fd) })
		request, err := unix.NewIfreq("tun0")
		l.must(err)
		request.SetUint16(mode | unix.IFF_NO_PI)
		l.must(ioctl(fd, unix.TUNSETIFF, unsafe.Pointer(request)))
		tun, err := netlink.LinkByName("tun0")
		l.must(err)
		l.must(netlink.LinkSetTxQLen(tun, room))
		address, err := netlink.ParseAddr("198.51.100.1/24")
		l.must(err)
		l.must(netlink.AddrAdd(tun, address))
		l.must(netlink.LinkSetUp(tun))
		if mode == unix.IFF_TAP {
			l.must(netlink.NeighSet(&netlink.Neigh{LinkIndex: tun.Attrs().Index, IP: beyond, HardwareAddr: testnet.TxEndpoint.MAC, State: netlink.NUD_PERMANENT}))
		}
		return nil
	}))
	return fd
}

func ioctl(fd int, request uintptr, value unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(value)); errno != 0 {
		return errno
	}
	return nil
}

// overflows is a cause for which nobody reads a tun or tap.
func overflows(mode uint16) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		const room = 8
		l.set("ipv4/ip_forward", "1")
		l.tun(mode, room)
		return sends(packet{dst: beyond})(l) - room
	}
}

var ofQueues = []cause{
	{name: "queue tbf", do: queues(func(index int) error { return slow(index, 4000) }), found: "egress QDISC_* *|egress TBF*", device: "out0", advice: "tc -s qdisc", culprit: "qdisc tbf 1:0 at out0, limit 3.9 KiB, rate 8000 bit/s"},
	{name: "queue htb", do: queues(func(index int) error {
		htb := netlink.NewHtb(root(index))
		htb.Defcls = 1
		class := netlink.ClassAttrs{LinkIndex: index, Parent: netlink.MakeHandle(1, 0), Handle: netlink.MakeHandle(1, 1)}
		leaf := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(2, 0), Parent: netlink.MakeHandle(1, 1)}
		return errors.Join(netlink.QdiscAdd(htb), netlink.ClassAdd(netlink.NewHtbClass(class, netlink.HtbClassAttrs{Rate: 8000, Buffer: 2000, Cbuffer: 2000})),
			netlink.QdiscAdd(&netlink.GenericQdisc{QdiscAttrs: leaf, QdiscType: "pfifo"}))
	}), found: "egress QDISC_* *", device: "out0", advice: "tc -s qdisc", culprit: "qdisc pfifo 2:0 at out0"},
	{name: "queue pfifo", do: queues(below(func(a netlink.QdiscAttrs) netlink.Qdisc {
		return &netlink.GenericQdisc{QdiscAttrs: a, QdiscType: "pfifo"}
	})), found: "egress QDISC_* *", device: "out0", advice: "tc -s qdisc", culprit: "qdisc pfifo 2:0 at out0"},
	{name: "queue fq_codel", do: queues(below(func(a netlink.QdiscAttrs) netlink.Qdisc {
		q := netlink.NewFqCodel(a)
		q.Limit = 4
		return q
	})), found: "egress QDISC_* *|egress FQ_*", device: "out0", advice: "tc -s qdisc", culprit: "qdisc fq_codel 2:0 at out0"},
	{name: "queue fq", do: queues(below(func(a netlink.QdiscAttrs) netlink.Qdisc {
		q := netlink.NewFq(a)
		q.PacketLimit = 4
		return q
	})), found: "egress QDISC_* *|egress FQ_* *", device: "out0", advice: "tc -s qdisc", culprit: "qdisc fq 2:0 at out0"},
	{name: "queue netem", do: queues(func(index int) error {
		return netlink.QdiscAdd(netlink.NewNetem(root(index), netlink.NetemQdiscAttrs{Loss: 100}))
	}), found: "egress QDISC_* *|stack NOT_SPECIFIED netem_enqueue|egress NOT_SPECIFIED netem_enqueue", device: "out0", advice: "qdisc", culprit: "qdisc netem 1:0 at out0"},
	{name: "program of tc at ingress", do: func(l *lab) uint64 {
		l.refuseAt(l.RxIndex, netlink.HANDLE_MIN_INGRESS)
		return sends(packet{})(l)
	}, found: "stack TC_INGRESS *", advice: "tc -s filter"},
	{name: "program of tc at egress", do: func(l *lab) uint64 {
		l.refuseAt(l.forward().TxIndex, netlink.HANDLE_MIN_EGRESS)
		return sends(packet{dst: beyond})(l)
	}, found: "egress TC_EGRESS *", device: "out0", advice: "tc -s filter"},
	{name: "interface without a link", do: func(l *lab) uint64 {
		out := l.forward()
		l.set("ipv4/conf/out0/ignore_routes_with_linkdown", "0")
		l.must(out.Rx.Do(func() error {
			return netlink.LinkSetDown(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: out.RxIndex}})
		}))
		testnet.WaitFor(l, "the link to be down", func() bool {
			down := false
			l.must(l.Rx.Do(func() error {
				link, err := netlink.LinkByIndex(out.TxIndex)
				down = err == nil && link.Attrs().OperState != netlink.OperUp
				return err
			}))
			return down
		})
		return sends(packet{dst: beyond})(l)
	}, found: "egress QDISC_DROP *|stack NOT_SPECIFIED *", device: "out0", advice: "link is down", culprit: "out0 has no carrier"},
	{name: "tun that nobody reads", do: overflows(unix.IFF_TUN), found: "egress FULL_RING tun_net_xmit", device: "tun0", advice: "tun or tap"},
	{name: "tap that nobody reads", do: overflows(unix.IFF_TAP), found: "egress FULL_RING tun_net_xmit", device: "tun0", advice: "tun or tap"},
	{name: "queue of a CPU", do: func(l *lab) uint64 {
		// A program sends more copies at once than the queue takes, which is 1000.
		const copies = 1100
		const counter = asm.R7
		program := l.load(ebpf.SchedCLS, asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(counter, copies),
			asm.Mov.Reg(asm.R1, asm.R6).WithSymbol("again"), asm.Mov.Imm(asm.R2, int32(l.RxIndex)), asm.Mov.Imm(asm.R3, 1), asm.FnCloneRedirect.Call(),
			asm.Sub.Imm(counter, 1), asm.JNE.Imm(counter, 0, "again"),
			asm.Mov.Imm(asm.R0, 0),
		})
		l.begin()
		l.must(l.Rx.Do(func() error {
			_, _, err := program.Test(packet{to: stranger}.frame())
			return err
		}))
		return copies - 1001
	}, found: "stack CPU_BACKLOG enqueue_to_backlog", advice: "netdev_max_backlog"},
	{name: "interface that says nothing", do: func(l *lab) uint64 {
		l.must(l.Rx.Do(func() error {
			ifb := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "ifb0"}}
			l.must(netlink.LinkAdd(ifb))
			address, err := netlink.ParseAddr("198.51.100.1/24")
			l.must(err)
			l.must(netlink.AddrAdd(ifb, address))
			l.must(netlink.LinkSetUp(ifb))
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: ifb.Index, IP: beyond, HardwareAddr: testnet.TxEndpoint.MAC, State: netlink.NUD_PERMANENT})
		}))
		return l.write("udp4", net.JoinHostPort(beyond.String(), "9"))
	}, left: "ifb0 rx_dropped"},
}
