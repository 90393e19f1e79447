package drops

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// addStopping adds an interface that cannot send in generic mode. It is an ifb whose queue holds
// one packet, and is stopped until that packet is handled. A tc program sends it a copy of each
// incoming packet, which stops the queue. Then the packet itself comes in again, at the interface
// whose index `to` returns, and finds the queue stopped.
func (n *network) addStopping(name string, to func(stopping int) int) (index int) {
	n.Helper()
	n.must(n.Rx.Do(func() error {
		ifb := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: 1}}
		n.must(netlink.LinkAdd(ifb))
		index = ifb.Index
		n.must(netlink.LinkSetTxQLen(ifb, 0))
		return netlink.LinkSetUp(ifb)
	}))
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "stops", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, int32(index)),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnCloneRedirect.Call(),
			asm.Mov.Imm(asm.R1, int32(to(index))),
			asm.Mov.Imm(asm.R2, 1), // BPF_F_INGRESS
			asm.FnRedirect.Call(),
			asm.Return(),
		},
	})
	n.must(err)
	n.Cleanup(func() { prog.Close() })
	n.must(n.Rx.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: n.RxIndex, Program: prog, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			n.Cleanup(func() { l.Close() })
		}
		return err
	}))
	return index
}

// What cannot be sent in generic mode is counted once, though the kernel reports it twice: that the
// verdict tx failed, and that the packet was thrown away.
func TestLossOfGenericTx(t *testing.T) {
	t.Parallel()
	const sent, name = 30, "stops0"
	for _, test := range []struct {
		name     string
		redirect bool // from another interface
		among    []string
	}{
		{"tx", false, []string{"XDP tx", "stack NOT_SPECIFIED"}}, // by lost.GenericTx
		{"redirect", true, []string{"stack NOT_SPECIFIED"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			n.meet() // or it sends and gets ARP
			at := &network{t, testnet.MustPair(t, testnet.PairOptions{Rx: n.Rx, RxName: "beside0"}), nil}
			stopping := n.addStopping(name, func(stopping int) int {
				if !test.redirect {
					at.RxName, at.RxIndex = name, stopping
				}
				return at.RxIndex
			})
			program := verdict(xdp.Tx)
			if test.redirect {
				program = asm.Instructions{asm.Mov.Imm(asm.R1, int32(stopping)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call()}
			}
			at.attach(program, link.XDPGenericMode)
			n.RxName = name
			m := n.openMeter()
			// All on one CPU: what lets the interface take packets again does not come in between.
			n.must(machine.Quiet(0, func() error {
				for range sent {
					if err := n.sender.Send(testnet.TxToRx().UDP(1000, 9, make([]byte, 100))); err != nil {
						return err
					}
				}
				return nil
			}))
			found := make(map[string]uint64)
			for l, tally := range n.counts(m).Losses {
				t.Logf("%v %+v %+v", l.Stage, l, tally)
				// A copy that comes while the interface still has the one before is lost there.
				if l.Where != "__dev_queue_xmit" && l.Device != "?" {
					found[string(l.Stage)+" "+l.Reason] += tally.Packets
				}
			}
			if !slices.ContainsFunc(test.among, func(at string) bool { return maps.Equal(found, map[string]uint64{at: sent}) }) {
				t.Errorf("%v, want %d at one of %q", found, sent, test.among)
			}
			events, err := m.events.Read()
			n.must(err)
			failed := meter.Case{Event: meter.Exception, Verdict: xdp.Tx, From: name}
			if got := meter.SumEvents(events.Cases[failed]).Drops; got != sent {
				t.Errorf("%d packets could not be sent, want %d", got, sent)
			}
		})
	}
}
