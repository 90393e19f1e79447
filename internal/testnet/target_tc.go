package testnet

import (
	"errors"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AttachAtTC attaches a target to the ingress or egress of an interface: by tcx, or by a filter of
// clsact, which stays until the interface goes. Without tcx the error is an ebpf.ErrNotSupported.
func (t *Target) AttachAtTC(ns *Namespace, ifname string, isEgress, isFilter bool) error {
	return ns.Do(func() error {
		netif, err := net.InterfaceByName(ifname)
		if err != nil {
			return err
		}
		if isFilter {
			return t.addFilter(netif.Index, isEgress)
		}
		at := ebpf.AttachTCXIngress
		if isEgress {
			at = ebpf.AttachTCXEgress
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: netif.Index, Program: t.prog, Attach: at})
		if err == nil {
			t.links = append(t.links, l)
		}
		return err
	})
}

func (t *Target) addFilter(index int, isEgress bool) error {
	if err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: clsactOf(index)}); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if isEgress {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:          t.prog.FD(), Name: "target", DirectAction: true,
	})
}

// CallsAtTC is the map of a target of the kind CallingAtTC: it calls the first program there.
func (t *Target) CallsAtTC() *ebpf.Map { return t.coll.Maps[targetMapCallsAtTc] }

// RemoveClsact removes the qdisc clsact of an interface, with all its filters, if there is one.
func RemoveClsact(ns *Namespace, ifname string) error {
	return ns.Do(func() error {
		netif, err := net.InterfaceByName(ifname)
		if err != nil {
			return err
		}
		err = netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: clsactOf(netif.Index)})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
}

func clsactOf(index int) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
}

// MustCountCalls traces a function of a program, and returns how often the kernel has called the
// tracer.
func MustCountCalls(tb TB, prog *ebpf.Program, function string) func() uint64 {
	tb.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	Must(tb, err)
	tb.Cleanup(func() { counts.Close() })
	tracer, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_calls", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTarget: prog, AttachTo: function, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, counts.FD(), 0),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	Must(tb, err)
	tb.Cleanup(func() { tracer.Close() })
	l, err := link.AttachTracing(link.TracingOptions{Program: tracer})
	Must(tb, err)
	tb.Cleanup(func() { l.Close() })
	return func() (n uint64) {
		Must(tb, counts.Lookup(uint32(0), &n))
		return n
	}
}
