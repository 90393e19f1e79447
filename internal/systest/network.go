package systest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// MustListen listens on a port of 127.0.0.1 in a namespace until the test ends.
func MustListen(t *testing.T, ns *testnet.Namespace) (l *net.TCPListener) {
	t.Helper()
	if err := ns.Do(func() (err error) {
		l, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// SendBack sends frames from the receiving side of a pair.
func SendBack(t *testing.T, pair *testnet.Pair, frames ...[]byte) {
	t.Helper()
	SendOn(t, pair, pair.RxName, frames...)
}

// SendOn sends frames on an interface of that side.
func SendOn(t *testing.T, pair *testnet.Pair, ifname string, frames ...[]byte) {
	t.Helper()
	s, err := testnet.NewSender(pair.Rx, ifname)
	testnet.Must(t, err)
	defer s.Close()
	for _, f := range frames {
		testnet.Must(t, s.Send(f))
	}
}

// SentBy returns how many packets the pair's receiving interface has sent.
func SentBy(t *testing.T, pair *testnet.Pair) (n uint64) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		l, err := netlink.LinkByIndex(pair.RxIndex)
		if err == nil {
			n = l.Attrs().Statistics.TxPackets
		}
		return err
	}))
	return n
}

// TagSent gives frames that the receiving side sends from now on a VLAN tag in the packet's
// metadata, as for a card that inserts tags. It uses a VLAN interface or, if the kernel cannot
// create one, a program at egress before all other programs there. It returns the interface to send
// on.
func TagSent(t *testing.T, pair *testnet.Pair, id int) (name string) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		vlan := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "tagged", ParentIndex: pair.RxIndex, MTU: 1500}, VlanId: id}
		if err := netlink.LinkAdd(vlan); !errors.Is(err, unix.EOPNOTSUPP) {
			name = vlan.Name
			return errors.Join(err, netlink.LinkSetUp(vlan))
		}
		name = pair.RxName
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return err
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "push_tag",
			Type: ebpf.SchedCLS,
			Instructions: asm.Instructions{
				asm.Mov.Imm(asm.R2, 0x0081), // 802.1Q, in network order
				asm.Mov.Imm(asm.R3, int32(id)),
				asm.FnSkbVlanPush.Call(),
				asm.Mov.Imm(asm.R0, -1),
				asm.Return(),
			},
			License: "GPL",
		})
		if err != nil {
			return err
		}
		defer prog.Close()
		a, err := tc.Attach(prog, ifi, tc.Egress)
		if err == nil {
			t.Cleanup(func() { a.Close() })
		}
		return err
	}))
	return name
}

// EgressOf lists the programs at the egress of the pair's receiving interface.
func EgressOf(t *testing.T, pair *testnet.Pair) (list []string) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		attached, err := link.QueryPrograms(link.QueryOptions{Target: pair.RxIndex, Attach: ebpf.AttachTCXEgress})
		switch {
		case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL): // before Linux 6.6
		case err != nil:
			return err
		default:
			for _, p := range attached.Programs {
				list = append(list, fmt.Sprint("tcx ", p.ID))
			}
		}
		rx, err := netlink.LinkByIndex(pair.RxIndex)
		if err != nil {
			return err
		}
		filters, err := netlink.FilterList(rx, netlink.HANDLE_MIN_EGRESS)
		for _, f := range filters {
			list = append(list, fmt.Sprint("clsact ", f.Attrs().Handle))
		}
		return err
	}))
	return list
}

// Attrs returns attributes of an interface that has only a name.
func Attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

// AddLink adds an interface to the receiving namespace.
func AddLink(t *testing.T, pair *testnet.Pair, l netlink.Link) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error { return netlink.LinkAdd(l) }))
}

// AddPair adds a veth pair with both ends in the receiving namespace; the peer has the same number
// of send queues.
func AddPair(t *testing.T, pair *testnet.Pair, name string, rxQueues, peerTxQueues int) {
	t.Helper()
	a := Attrs(name)
	a.NumRxQueues, a.NumTxQueues = rxQueues, rxQueues
	AddLink(t, pair, &netlink.Veth{LinkAttrs: a, PeerName: name + "p", PeerNumTxQueues: uint32(peerTxQueues), PeerNumRxQueues: 1})
	testnet.Must(t, pair.Rx.Do(func() error {
		for _, n := range []string{name, name + "p"} {
			l, err := netlink.LinkByName(n)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Sleeper starts an idle process in a namespace, which lives until the test ends, and returns its
// id.
func Sleeper(t *testing.T, ns *testnet.Namespace) int {
	t.Helper()
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	cmd := Command("-F", "-") // waits for a filter on standard input
	cmd.Stdin = r
	testnet.Must(t, ns.Start(cmd))
	r.Close()
	t.Cleanup(func() {
		w.Close()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// RunInside runs a command in a namespace and returns its output.
func RunInside(t *testing.T, ns *testnet.Namespace, cmd *exec.Cmd) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	testnet.Must(t, ns.Start(cmd))
	cmd.Wait()
	return out.String()
}

// CountsOf reads the counts until this many packets were seen, and returns them.
func CountsOf(t *testing.T, p *Process, seen uint64) (s Summary) {
	t.Helper()
	testnet.WaitFor(t, "packets to be seen", func() bool {
		before := len(Summaries(t, p.Stderr()))
		p.Cmd.Process.Signal(syscall.SIGUSR1)
		testnet.WaitFor(t, "the counts", func() bool {
			all := Summaries(t, p.Stderr())
			if len(all) > before {
				s = all[len(all)-1]
			}
			return len(all) > before
		})
		return s.Seen >= seen
	})
	return s
}

// SendClosed sends a packet to each of these UDP ports, on which no process listens, and waits
// until the stack has dropped them.
func SendClosed(t *testing.T, pair *testnet.Pair, ports ...uint16) {
	t.Helper()
	sender := testnet.MustSender(t, pair)
	for _, port := range ports {
		testnet.Must(t, sender.Send(testnet.TxToRx().UDP(1000, port, []byte("payload"))))
	}
	testnet.WaitHandled(t)
}
