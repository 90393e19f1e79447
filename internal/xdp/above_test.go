package xdp_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An interface is higher than those below it, whichever was made first: the ports of its bridge, or
// the device that it is on.
func TestHeights(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	must(t, err)
	defer ns.Close()
	named := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name = name
		return a
	}
	must(t, ns.Do(func() error {
		bridge := &netlink.Bridge{LinkAttrs: named("br0")}
		port := &netlink.Veth{LinkAttrs: named("port0"), PeerName: "peer0"}
		if err := errors.Join(netlink.LinkAdd(bridge), netlink.LinkAdd(port), netlink.LinkSetMaster(port, bridge)); err != nil {
			return err
		}
		want := map[string]int{"lo": 0, "port0": 0, "peer0": 0, "br0": 1}
		upper := &netlink.Macvlan{LinkAttrs: named("upper0"), Mode: netlink.MACVLAN_MODE_BRIDGE}
		upper.ParentIndex = bridge.Index
		if err := netlink.LinkAdd(upper); err == nil {
			want["upper0"] = 2
		} else if !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
		heights, err := xdp.Heights()
		if err != nil {
			return err
		}
		got := make(map[string]int)
		all, err := xdp.Interfaces()
		for _, ifi := range all {
			if _, ok := want[ifi.Name]; ok { // a namespace may have devices of its own, such as sit0
				got[ifi.Name] = heights[ifi.Index]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return err
	}))
}
