package drops

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// lossesWith returns how many packets were lost for a reason, by the device that the meter names.
func (n *network) lossesWith(m *Meter, reason string) map[string]uint64 {
	n.Helper()
	found := make(map[string]uint64)
	for l, tally := range n.counts(m).Losses {
		n.Logf("%v %+v %+v", l.Stage, l, tally)
		if l.Reason == reason {
			found[l.Device] += tally.Packets
		}
	}
	return found
}

// A packet that comes in through one interface and is lost at the queue of another is counted once
// for each of the two that is asked about, as often as the queue counts it.
func TestLossOfForwarded(t *testing.T) {
	t.Parallel()
	const sent = 50
	n := newNetwork(t)
	out := n.forward(2_000_000)
	in := n.openMeter()
	var outward *Meter
	n.must(n.Rx.Do(func() (err error) {
		outward, err = Open(Options{Interface: "out0"})
		return err
	}))
	t.Cleanup(func() { outward.Close() })
	path := testnet.TxToRx()
	path.Dst.IPv4 = beyond
	for range sent {
		n.must(n.sender.Send(path.UDP(1000, 9, make([]byte, 500))))
	}
	testnet.WaitHandled(n)
	_, dropped := n.queue(out.TxIndex)
	if dropped == 0 {
		t.Fatal("the queue has dropped none")
	}
	reason := "QDISC_DROP"
	if len(n.lossesWith(in, reason)) == 0 {
		reason = "QDISC_OVERLIMIT"
	}
	if diff := cmp.Diff(map[string]uint64{"out0": dropped}, n.lossesWith(in, reason)); diff != "" {
		t.Errorf("of the interface that received: %s", diff)
	}
	if diff := cmp.Diff(map[string]uint64{"": dropped}, n.lossesWith(outward, reason)); diff != "" {
		t.Errorf("of the interface that sends: %s", diff)
	}
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
			if diff := cmp.Diff(map[string]uint64{name: sent}, n.lossesWith(m, "NO_SOCKET")); diff != "" {
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
	var other *Meter
	n.must(n.Rx.Do(func() error { // with an index that no interface of another test has
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "beside0", Index: 471_100}, PeerName: "beside1"})
		if err != nil {
			return err
		}
		other, err = Open(Options{Interface: "beside0", Flows: true})
		return err
	}))
	t.Cleanup(func() { other.Close() })
	port := uint16(conn.LocalAddr().(*net.UDPAddr).Port)
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
