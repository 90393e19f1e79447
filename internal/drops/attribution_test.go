package drops

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
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
