package xdp_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What was switched off is switched on again, at the interface and at those below it, and nothing
// else.
func TestJoining(t *testing.T) {
	t.Parallel()
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		bridge := &netlink.Bridge{LinkAttrs: attrs}
		port, err := netlink.LinkByName(ifi.Name)
		if err == nil {
			err = errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetMaster(port, bridge))
		}
		if err != nil {
			return err
		}
		upper, err := xdp.InterfaceByName("br0")
		if err != nil {
			return err
		}
		const first, second = "rx-gro", "tx-generic-segmentation"
		note := func() *xdp.Joining { return xdp.NoteFeatures(upper, first, second) }
		if lost := note().Lost(); lost != nil {
			t.Errorf("nothing was switched off, and %v is to be switched on", lost)
		}
		before := note()
		must(t, xdp.SetFeature("br0", first, false))
		must(t, xdp.SetFeature("veth0", second, false))
		must(t, xdp.SetFeature("peer0", second, false))
		lost := before.Lost()
		if lost == nil || lost.String() != first+" of br0, "+second+" of veth0" {
			t.Fatalf("%v was switched off", lost)
		}
		must(t, lost.Close())
		for _, test := range []struct {
			name, feature string
			want          bool
		}{{"br0", first, true}, {"veth0", second, true}, {"peer0", second, false}} {
			if on := xdp.Features(test.name)[test.feature]; on != test.want {
				t.Errorf("%s of %s is %v, want %v", test.feature, test.name, on, test.want)
			}
		}
		// An interface that is gone needs nothing, and is no error.
		before = note()
		must(t, xdp.SetFeature("br0", first, false))
		lost = before.Lost()
		must(t, netlink.LinkDel(bridge))
		return lost.Close()
	})
}

// LRO that attaching switches off is on again when the program is detached.
func TestAttachRestoresLRO(t *testing.T) {
	t.Parallel()
	if !testnet.Emulated() {
		t.Skip("needs a card that has LRO: the machine of make test-kernels has one")
	}
	all, err := xdp.Interfaces()
	must(t, err)
	i := slices.IndexFunc(all, func(ifi xdp.Interface) bool { return ifi.Driver == "vmxnet3" })
	if i < 0 {
		t.Fatalf("no vmxnet3 device among %+v", all)
	}
	const lro = "rx-lro"
	card := all[i]
	for _, mode := range []packet.Mode{packet.Generic, packet.Native} {
		must(t, xdp.SetFeature(card.Name, lro, true))
		a, err := attach.XDP(card, testnet.MustPassing(t, "passing"), mode)
		if errors.Is(err, xdp.ErrNoNative) {
			continue // vmxnet3 has XDP since Linux 6.6
		}
		must(t, err)
		if off := a.SwitchedOff; off == nil || off.String() != lro+" of "+card.Name || xdp.Features(card.Name)[lro] {
			t.Errorf("%v: switched off: %v, LRO is %v", mode, off, xdp.Features(card.Name)[lro])
		}
		must(t, a.Close())
		if !xdp.Features(card.Name)[lro] {
			t.Errorf("%v: LRO stays off", mode)
		}
	}
}
