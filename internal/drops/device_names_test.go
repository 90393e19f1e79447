package drops

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// What an interface loses before and after it is renamed is one cause, with its latest name where
// all interfaces are counted together.
func TestRenamedIsOne(t *testing.T) {
	t.Parallel()
	const before, after = 10, 20
	n := newNetwork(t)
	name := fmt.Sprintf("new%d", os.Getpid()) // the meter of all interfaces also counts other tests
	own, all := n.openMeter(), n.openMeterOf(Options{})
	isReason := func(reason string) bool { return reason == "NO_SOCKET" }
	n.send(9, before)
	n.lossesBy(own, isReason)
	n.lossesBy(all, isReason)
	rx := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: n.RxIndex}}
	n.must(n.Rx.Do(func() error {
		return errors.Join(netlink.LinkSetDown(rx), netlink.LinkSetName(rx, name), netlink.LinkSetUp(rx))
	}))
	testnet.WaitUp(t, n.Pair)
	n.send(9, after)
	if diff := cmp.Diff(map[string]uint64{"": before + after}, n.lossesBy(own, isReason)); diff != "" {
		t.Errorf("of the interface: %s", diff)
	}
	if lost := n.lossesBy(all, isReason)[name]; lost != before+after {
		t.Errorf("of all: %d packets at %s, want %d", lost, name, before+after)
	}
}

// When an interface is removed and comes back, its losses count as before, and so do those of its
// packets on their way.
func TestComesBack(t *testing.T) {
	t.Parallel()
	const before, after = 10, 20
	n := newNetwork(t)
	program, err := filter.Compile("udp dst port 9", filter.Options{})
	n.must(err)
	var l *Lasting
	n.must(n.Rx.Do(func() (err error) {
		l, err = OpenLasting(Options{Interface: n.RxName, Filter: program})
		return err
	}))
	defer l.Close()
	follow := func(want string) {
		t.Helper()
		n.must(n.Rx.Do(func() error {
			notice, err := l.Follow()
			if !strings.Contains(notice, want) {
				t.Errorf("%q, want %q", notice, want)
			}
			return err
		}))
	}
	check := func(want uint64) {
		t.Helper()
		testnet.WaitHandled(t)
		var c Counts
		n.must(n.Rx.Do(func() (err error) { c, err = l.Read(); return err }))
		lost := uint64(0)
		for loss, tally := range c.Losses {
			if loss.Device != "" {
				t.Errorf("%+v", loss)
			}
			lost += tally.Packets
		}
		if stack := c.Way.Stops[1]; lost != want || stack.Came.Packets != want || stack.Lost().Packets != want {
			t.Errorf("%d lost, way %+v, want %d", lost, c.Way, want)
		}
	}
	n.send(9, before)
	check(before)
	n.must(n.Rx.Do(func() error { return netlink.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: n.RxIndex}}) }))
	check(before)
	follow("rx0 has gone")
	follow("")
	check(before)
	again := newNetworkOf(t, testnet.PairOptions{Rx: n.Rx, RxName: n.RxName, Addresses: true})
	follow("rx0 is back")
	again.send(9, after)
	check(before + after)
}

// What was counted before an interface came back is in all counts, and their owner may change them.
func TestFormerCounts(t *testing.T) {
	t.Parallel()
	l := Loss{Stage: Socket, Reason: "NO_SOCKET"}
	counts := func(times uint64) Counts {
		some := func() map[Loss]Tally { return map[Loss]Tally{l: {Packets: times, Bytes: 100 * times}} }
		came := &Tally{Packets: times}
		c := newCounts()
		c.Losses, c.Missed = some(), times
		c.Way = &Way{Notes: []string{"note"}, Stops: []Stop{
			{Stage: Card, Losses: some()}, {Stage: XDP, Came: came, Losses: some()}, {Stage: Stack, Came: came}, {Stage: Socket, Losses: some()},
		}}
		c.Retransmits = &Retransmits{Segments: 3 * times, Lost: some(), Elsewhere: times, Unknown: times}
		return c
	}
	former, now := counts(1), newCounts()
	now.include(former) // while the interface is away
	if diff := cmp.Diff(counts(1), now, cmp.AllowUnexported(FlowCounts{})); diff != "" {
		t.Errorf("once: %s", diff)
	}
	now.include(former)
	if diff := cmp.Diff(counts(2), now, cmp.AllowUnexported(FlowCounts{})); diff != "" {
		t.Errorf("twice: %s", diff)
	}
	now.Way.Stops = slices.Delete(now.Way.Stops, 1, 2)
	now.include(former) // no program runs at XDP any more
	if at := now.Way.Stops[1]; at.Stage != XDP || at.Losses[l].Packets != 1 || now.Way.Stops[2].Came.Packets != 3 {
		t.Errorf("XDP has %+v", at)
	}
	now.include(former)
	if diff := cmp.Diff(counts(1), former, cmp.AllowUnexported(FlowCounts{})); diff != "" {
		t.Errorf("the former counts have changed: %s", diff)
	}
}
