package testnet

import (
	"errors"
	"net"

	"github.com/cilium/ebpf"
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
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := netlink.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
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
