package drops

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// lossesBy returns how many packets were lost for a reason, by the device that the meter names.
func (n *network) lossesBy(m *Meter, isReason func(reason string) bool) map[string]uint64 {
	n.Helper()
	found := make(map[string]uint64)
	for l, tally := range n.counts(m).Losses {
		n.Logf("%v %+v %+v", l.Stage, l, tally)
		if isReason(l.Reason) {
			found[l.Device] += tally.Packets
		}
	}
	return found
}

// What is lost at a device above is counted for the interface that received it, with the name of
// the device.
func TestLossAbove(t *testing.T) {
	t.Parallel()
	const sent = 30
	for _, upper := range testnet.Uppers {
		t.Run(upper.Name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			name := upper.MustAdd(t, n.Pair)
			m := n.openMeter()
			for range sent {
				n.must(n.sender.Send(upper.Frame(testnet.TxToRx().UDP(1000, 9, make([]byte, 100)))))
			}
			if diff := cmp.Diff(map[string]uint64{name: sent}, n.lossesBy(m, func(reason string) bool { return reason == "NO_SOCKET" })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of a packet whose wrong checksum is found when it is read from its socket, the kernel knows
// neither device nor namespace. It is lost at the interface that it came in on, if a process of the
// same namespace reads it; if not, that is unclear. For another interface it is nothing.
func TestLossWithoutDevice(t *testing.T) {
	t.Parallel()
	const sent = 3
	n := newNetwork(t)
	m := n.openMeter()
	n.must(n.Rx.Do(func() error { // with an index that no interface of another test has
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "beside0", Index: 471_100}, PeerName: "beside1"})
	}))
	other := n.openMeterOf(Options{Interface: "beside0", Flows: true})
	unread := func(losses map[Loss]Tally) (packets uint64) {
		for l, tally := range losses {
			if l.Device == "?" && (l.Reason == "UDP_CSUM" || strings.Contains(l.Where, "udp_recvmsg")) {
				packets += tally.Packets
			}
		}
		return packets
	}
	read := func(from *testnet.Namespace) {
		conn := n.openSocket()
		frame := testnet.TxToRx().UDP(1000, portOf(conn), make([]byte, 400))
		frame[len(frame)-1] ^= 0xff
		for range sent {
			n.must(n.sender.Send(frame))
		}
		testnet.WaitHandled(t)
		n.must(from.Do(func() error {
			raw, err := conn.SyscallConn()
			n.must(err)
			return raw.Control(func(fd uintptr) {
				for range sent {
					unix.Recvfrom(int(fd), make([]byte, 1500), unix.MSG_DONTWAIT)
				}
			})
		}))
	}
	read(n.Rx)
	if c := n.counts(m); unread(c.Losses) != sent {
		t.Errorf("read in the same namespace: %+v, unclear %+v", c.Losses, c.Unclear)
	}
	read(n.Tx)
	if c := n.counts(m); unread(c.Losses) != sent || unread(c.Unclear) < sent { // other tests' may be among them
		t.Errorf("read in another namespace: %+v, unclear %+v", c.Losses, c.Unclear)
	}
	if c := n.counts(other); unread(c.Losses)+unread(c.Unclear) != 0 {
		t.Errorf("of another interface: %+v, unclear %+v", c.Losses, c.Unclear)
	}
}

// Of a network namespace, what all of its interfaces lose is counted, and nothing of another one,
// whose interfaces have the same indexes: neither in the stack nor at the XDP hook.
func TestLossInNamespace(t *testing.T) {
	t.Parallel()
	const sent, elsewhere = 30, 7
	n, other := newNetwork(t), newNetwork(t)
	second := newNetworkOf(t, testnet.PairOptions{Rx: n.Rx, RxName: "second0", Addresses: true})
	aborting := newNetwork(t)
	aborting.attach(verdict(xdp.Aborted), link.XDPDriverMode)
	m := n.openMeterOf(Options{Namespace: true})
	other.send(9, elsewhere)
	aborting.send(9, elsewhere)
	n.send(9, sent)
	second.send(9, sent+1)
	if diff := cmp.Diff(map[string]uint64{"rx0": sent, "second0": sent + 1}, n.lossesBy(m, func(reason string) bool { return reason == "NO_SOCKET" })); diff != "" {
		t.Error(diff)
	}
	for l := range n.counts(m).Losses {
		if l.Netns != 0 || l.Stage == XDP {
			t.Errorf("%+v", l)
		}
	}
}

// Of the whole machine, what gets lost at XDP in another network namespace has that namespace.
func TestLossAtXDPElsewhere(t *testing.T) {
	t.Parallel()
	const sent = 7
	n, other := newNetwork(t), newNetwork(t)
	for _, aborting := range []*network{n, other} {
		aborting.attach(verdict(xdp.Aborted), link.XDPDriverMode)
	}
	m := n.openMeterOf(Options{})
	n.send(9, sent)
	other.send(9, sent+1)
	lost := n.counts(m).Losses
	for netns, want := range map[uint32]uint64{0: sent, n.netnsOf(other.Rx): sent + 1} {
		if got := lost[Loss{Stage: XDP, Reason: "aborted", Device: "rx0", Netns: netns}].Packets; got != want {
			t.Errorf("namespace %d: %d packets, want %d: %+v", netns, got, want, lost)
		}
	}
}

// What the host's own firewall drops on the way out is lost at egress, at the interface that it was
// to leave through, although the packet has no device yet. So are its flows.
func TestFirewallOut(t *testing.T) {
	t.Parallel()
	const (
		sent     = 30
		ipv4     = 2 // NFPROTO_IPV4
		localOut = 3 // NF_INET_LOCAL_OUT
	)
	n := newNetwork(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}) // NF_DROP
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) { // before Linux 6.4
		t.Skip(err)
	}
	n.must(err)
	t.Cleanup(func() { prog.Close() })
	n.must(n.Rx.Do(func() error {
		l, err := link.AttachNetfilter(link.NetfilterOptions{Program: prog, ProtocolFamily: ipv4, Hook: localOut})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
	m := n.openMeter()
	n.must(n.Rx.Do(func() error {
		conn, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range sent {
			conn.WriteTo([]byte("out"), &net.UDPAddr{IP: testnet.TxEndpoint.IPv4, Port: 7}) // EPERM
		}
		return nil
	}))
	c := n.counts(m)
	if found := n.losses(m); found["egress NETFILTER_DROP"] != sent || found["stack NETFILTER_DROP"] != 0 {
		t.Errorf("%v, want %d at egress", found, sent)
	}
	for name, packets := range n.flows(c) {
		t.Log(name, packets)
	}
}
