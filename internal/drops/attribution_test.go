package drops

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/meter"
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

// Of what a socket still has when it is closed, the kernel knows neither device nor namespace. It
// is lost at the interface that it came in on; for another one it is unclear, and in no total.
func TestLossWithoutDevice(t *testing.T) {
	t.Parallel()
	const sent = 3
	n := newNetwork(t)
	conn := n.openSocket()
	m := n.openMeter()
	n.must(n.Rx.Do(func() error { // with an index that no interface of another test has
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "beside0", Index: 471_100}, PeerName: "beside1"})
	}))
	other := n.openMeterOf(Options{Interface: "beside0", Flows: true})
	port := portOf(conn)
	n.send(port, sent)
	testnet.WaitHandled(t)
	n.must(conn.Close())

	closed := func(losses map[Loss]Tally) (packets uint64) {
		for l, tally := range losses {
			if l.Where == "udp_destruct_common" && l.Device == "?" {
				packets += tally.Packets
			}
		}
		return packets
	}
	own := func(c Counts) (packets uint64) {
		for _, f := range meter.FlowRates(meter.Interval[meter.FlowCounts]{Now: c.Flows.FlowCounts}) {
			if f.Flow.Destination.Port() == port {
				packets += f.Packets
			}
		}
		return packets
	}
	// Both meters also count what sockets of other tests had not read. So the losses alone do not
	// show that this socket is gone, but the flows do.
	testnet.WaitFor(t, "the socket to be gone", func() bool { return own(n.counts(m)) >= sent })
	if lost := closed(n.counts(m).Losses); lost < sent {
		t.Errorf("%d packets are lost at the interface that received them, want %d", lost, sent)
	}
	others := n.counts(other)
	if closed(others.Losses) != 0 || closed(others.Unclear) < sent { // other tests' may be among them
		t.Errorf("of another interface: %+v, unclear %+v", others.Losses, others.Unclear)
	}
	if packets := own(others); packets != 0 {
		t.Errorf("%d packets in the flows of another interface", packets)
	}
}
