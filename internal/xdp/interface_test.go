package xdp_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
var must = testnet.Must

func TestEthernetInterface(t *testing.T) {
	t.Parallel()
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
		l, err := netlink.LinkByName(ifi.Name)
		if err == nil {
			err = netlink.LinkSetDown(l)
		}
		if err == nil {
			err = netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN})
		}
		must(t, err)
		for name, want := range map[string]string{
			"veth0": "veth0 is down: ip link set dev veth0 up",
			"tun0": `tun0 is not an Ethernet interface (its link type is "none"): ` +
				"packets without an Ethernet header are not understood",
			// More may follow: the kernel makes tunnels in new namespaces where it has the modules.
			"nosuch": `interface "nosuch" does not exist; there are: lo, `,
			"any":    "interface any: interfaces must be named here; there are: lo, ",
		} {
			if _, err := xdp.EthernetInterface(name); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		return nil
	})
}
