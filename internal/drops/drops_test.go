package drops

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// attach runs an XDP program on the receiving interface.
func (n *network) attach(ins asm.Instructions, flags link.XDPAttachFlags) {
	n.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "loses", Type: ebpf.XDP, License: "GPL", Instructions: append(ins, asm.Return()),
	})
	n.must(err)
	n.Cleanup(func() { prog.Close() })
	n.must(n.Rx.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: n.RxIndex, Flags: flags})
		if err == nil {
			n.Cleanup(func() { l.Close() })
		}
		return err
	}))
}

// openMeter begins to count on the receiving interface.
func (n *network) openMeter() *Meter {
	n.Helper()
	return n.openMeterOf(Options{Interface: n.RxName, Flows: true})
}

// openMeterOf begins to count on the receiving side.
func (n *network) openMeterOf(o Options) (m *Meter) {
	n.Helper()
	n.must(n.Rx.Do(func() (err error) {
		m, err = Open(o)
		return err
	}))
	n.Cleanup(func() { m.Close() })
	return m
}

// counts reads what was lost of the packets that were sent so far.
func (n *network) counts(m *Meter) (c Counts) {
	n.Helper()
	testnet.WaitHandled(n)
	n.must(n.Rx.Do(func() (err error) {
		c, err = m.Read()
		return err
	}))
	return c
}

// losses returns how many packets were lost, by stage and reason.
func (n *network) losses(m *Meter) map[string]uint64 {
	n.Helper()
	c := n.counts(m)
	found := make(map[string]uint64)
	for l, tally := range c.Losses {
		n.Logf("%v %+v %+v", l.Stage, l, tally)
		if isStrange(l.Reason, l.Where) || l.Device == "?" {
			continue
		}
		found[fmt.Sprint(l.Stage, " ", l.Reason)] += tally.Packets
		if l.Stage != Card && l.Stage != XDP && (l.Where == "" || strings.HasPrefix(l.Where, "0x")) {
			n.Errorf("%s was lost in function %q", l.Reason, l.Where)
		}
	}
	if c.Missed > 0 {
		n.Errorf("%d losses are not counted", c.Missed)
	}
	return found
}

// addDown adds an interface that is down, and returns its index.
func (n *network) addDown() (index int) {
	n.Helper()
	down := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "down0"}, PeerName: "down1"}
	n.must(n.Rx.Do(func() error { return netlink.LinkAdd(down) }))
	return down.Index
}

func verdict(v xdp.Verdict) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, int32(v))}
}

// Of all interfaces together, what a native program aborts on one is not taken for what the kernel
// throws away on another one, where a program drops in generic mode.
func TestLossAtHooks(t *testing.T) {
	t.Parallel()
	const sent = 40
	n := newNetwork(t)
	name := fmt.Sprintf("aborts%d", os.Getpid()) // the meter also counts another run of this test
	native := newNetworkOf(t, testnet.PairOptions{Rx: n.Rx, RxName: name, Addresses: true})
	n.attach(verdict(xdp.Drop), link.XDPGenericMode)
	native.attach(verdict(xdp.Aborted), link.XDPDriverMode)
	m := n.openMeterOf(Options{})
	n.send(9, sent)
	native.send(9, sent)
	var aborted, dropped uint64
	testnet.WaitFor(t, "all packets to be lost", func() bool {
		aborted, dropped = 0, 0
		for l, tally := range n.counts(m).Losses {
			switch {
			case l.Stage == XDP && l.Reason == "aborted" && l.Device == name:
				aborted += tally.Packets
			case l.Stage == XDP && l.Reason == "drop":
				dropped += tally.Packets
			}
		}
		return aborted >= sent && dropped >= sent
	})
	if aborted != sent || dropped < sent { // other tests may drop in generic mode, too
		t.Errorf("%d packets aborted and %d dropped, want %d each", aborted, dropped, sent)
	}
}

// An interface that gets another name is counted on, and a program that it runs later is found.
// Once it is deleted, Follow says so.
func TestRenamed(t *testing.T) {
	t.Parallel()
	const sent = 30
	n := newNetwork(t)
	m := n.openMeter()
	follow := func() error { return n.Rx.Do(func() error { _, err := m.Follow(); return err }) }
	rx := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: n.RxIndex}}
	n.must(n.Rx.Do(func() error {
		return errors.Join(netlink.LinkSetDown(rx), netlink.LinkSetName(rx, "renamed0"), netlink.LinkSetUp(rx))
	}))
	testnet.WaitUp(t, n.Pair)
	n.must(follow())
	n.attach(verdict(xdp.Drop), link.XDPDriverMode)
	n.must(follow())
	n.send(9, sent)
	if found := n.losses(m); found["XDP drop"] != sent || len(found) != 1 {
		t.Errorf("%v, want %d packets that XDP dropped", found, sent)
	}
	n.must(n.Rx.Do(func() error { return netlink.LinkDel(rx) }))
	if err := follow(); !errors.Is(err, xdp.ErrGone) || !strings.Contains(err.Error(), "rx0") {
		t.Errorf("once it is deleted: %v", err)
	}
}
