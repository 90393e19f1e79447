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
func (n *network) openMeter() (m *Meter) {
	n.Helper()
	n.must(n.Rx.Do(func() (err error) {
		m, err = Open(Options{Interface: n.RxName, Flows: true})
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
		if l.Stage >= Stack && (l.Where == "" || strings.HasPrefix(l.Where, "0x")) {
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
	n.must(n.Rx.Do(func() error {
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "down0"}, PeerName: "down1"})
		if err != nil {
			return err
		}
		down, err := netlink.LinkByName("down0")
		if err != nil {
			return err
		}
		index = down.Attrs().Index
		return nil
	}))
	return index
}

// A packet that ends at the XDP hook is counted there, once, though the kernel and the driver say
// it again elsewhere. One that the program passes is counted where the stack loses it.
func TestLossAtHook(t *testing.T) {
	t.Parallel()
	for _, program := range losingPrograms {
		for mode, flags := range map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode} {
			t.Run(program.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				newNetwork(t).loseAtHook(program, flags)
			})
		}
	}
}

// The same holds of cards whose driver is virtio_net. The machine has one pair of them, so tests of
// cards are not parallel.
func TestLossAtHookOfCards(t *testing.T) {
	for _, program := range losingPrograms {
		t.Run(program.name, func(t *testing.T) { newCards(t).loseAtHook(program, link.XDPDriverMode) })
	}
}

// A losingProgram is an XDP program, with the stage and reason at which its packets are lost.
type losingProgram struct {
	name string
	make func(*network) asm.Instructions
	want string
}

var losingPrograms = []losingProgram{
	{"drop", verdict(xdp.Drop), "XDP drop"},
	{"aborted", verdict(xdp.Aborted), "XDP aborted"},
	{"unknown", verdict(77), "XDP unknown"},
	{"pass", verdict(xdp.Pass), "stack NO_SOCKET"},
	{"redirect", func(n *network) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(n.addDown())),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
		}
	}, "XDP redirect: "},
}

func verdict(v xdp.Verdict) func(*network) asm.Instructions {
	return func(*network) asm.Instructions { return asm.Instructions{asm.Mov.Imm(asm.R0, int32(v))} }
}

// loseAtHook loses packets, and checks that each is counted once, at the right stage.
func (n *network) loseAtHook(program losingProgram, flags link.XDPAttachFlags) {
	const sent = 40
	n.Helper()
	n.attach(program.make(n), flags)
	m := n.openMeter()
	n.send(9, sent)
	var found map[string]uint64
	total := uint64(0)
	testnet.WaitFor(n, "all packets to be lost", func() bool {
		found, total = n.losses(m), 0
		for _, packets := range found {
			total += packets
		}
		return total >= sent
	})
	for at, packets := range found {
		if !strings.HasPrefix(at, program.want) {
			n.Errorf("%d packets are lost at %s", packets, at)
		}
	}
	if total != sent {
		n.Errorf("%d packets are lost, want %d at %s", total, sent, program.want)
	}
}

// Of all interfaces together, what a native program aborts on one is not taken for what the kernel
// throws away on another one, where a program drops in generic mode.
func TestLossAtHooks(t *testing.T) {
	t.Parallel()
	const sent = 40
	n := newNetwork(t)
	name := fmt.Sprintf("aborts%d", os.Getpid()) // the meter also counts another run of this test
	native := newNetworkOf(t, testnet.PairOptions{Rx: n.Rx, RxName: name, Addresses: true})
	n.attach(verdict(xdp.Drop)(n), link.XDPGenericMode)
	native.attach(verdict(xdp.Aborted)(native), link.XDPDriverMode)
	m, err := Open(Options{})
	n.must(err)
	t.Cleanup(func() { m.Close() })
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
	n.attach(asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Drop))}, link.XDPDriverMode)
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
