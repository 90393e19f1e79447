package xdp_test

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func named(name string, parent netlink.Link) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	if parent != nil {
		a.ParentIndex = parent.Attrs().Index
	}
	return a
}

func macvlan(name string, parent netlink.Link) netlink.Link {
	return &netlink.Macvlan{LinkAttrs: named(name, parent), Mode: netlink.MACVLAN_MODE_BRIDGE}
}

func address(text string) *netlink.Addr {
	ip, network, _ := net.ParseCIDR(text)
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: network.Mask}, Flags: unix.IFA_F_NODAD}
}

// A builder makes the devices of one case. It keeps the first error, and does nothing after one.
type builder struct {
	veth0 netlink.Link       // the interface that is looked at
	other *testnet.Namespace // another one
	err   error
}

func (b *builder) do(steps ...func() error) {
	for _, step := range steps {
		if b.err == nil {
			b.err = step()
		}
	}
}

// add makes a device and sets it up. Those that belong to it are down while they join.
func (b *builder) add(l netlink.Link, members ...netlink.Link) netlink.Link {
	b.do(func() error { return netlink.LinkAdd(l) })
	for _, m := range members {
		b.do(func() error { return netlink.LinkSetDown(m) },
			func() error { return netlink.LinkSetMaster(m, l) },
			func() error { return netlink.LinkSetUp(m) })
	}
	b.do(func() error { return netlink.LinkSetUp(l) })
	return l
}

func (b *builder) address(l netlink.Link, text string) {
	b.do(func() error { return netlink.AddrAdd(l, address(text)) })
}

// linkLocal gives a device of our namespaces, where IPv6 is off, a link-local address. The kernel
// makes none of its own (addr_gen_mode 1): it would come at a time that nobody knows.
func (b *builder) linkLocal(l netlink.Link) {
	settings := "/proc/sys/net/ipv6/conf/" + l.Attrs().Name
	b.do(func() error { return os.WriteFile(settings+"/addr_gen_mode", []byte("1"), 0) },
		func() error { return os.WriteFile(settings+"/disable_ipv6", []byte("0"), 0) })
	b.address(l, "fe80::1/64")
}

func (b *builder) defaultRoute(l netlink.Link, table int) {
	b.do(func() error {
		everywhere := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: everywhere, Table: table})
	})
}

// The reason why an interface's packets are needed may be far above it. What only looks as if it
// were above it is no reason: the other end of a veth pair, and what is on a device with the same
// index in another namespace.
func TestUse(t *testing.T) {
	t.Parallel()
	const noIPv6 = "an interface that receives only copies needs no IPv6: sysctl net.ipv6.conf."
	for _, test := range []struct {
		name           string
		reason, remedy string
		build          func(b *builder)
	}{
		{"nothing", "", "", func(*builder) {}},
		{"an address", "veth0 has the IP address 192.0.2.2", "", func(b *builder) {
			b.linkLocal(b.veth0)
			b.address(b.veth0, "192.0.2.2/24")
		}},
		{"a link-local address", "veth0 has the link-local address fe80::1", noIPv6 + "veth0.disable_ipv6=1",
			func(b *builder) { b.linkLocal(b.veth0) }},
		{"a default route", "the default route is over veth0", "", func(b *builder) {
			b.address(b.veth0, "192.0.2.2/24")
			b.defaultRoute(b.veth0, 0)
		}},
		{"a bridge without an address", "", "", func(b *builder) {
			b.add(&netlink.Bridge{LinkAttrs: named("br0", nil)}, b.veth0)
		}},
		{"a bridge with an address", "br0 (bridge) above veth0 has the IP address 192.0.2.2", "", func(b *builder) {
			b.address(b.add(&netlink.Bridge{LinkAttrs: named("br0", nil)}, b.veth0), "192.0.2.2/24")
		}},
		{"a bridge with a link-local address", "br.0 (bridge) above veth0 has the link-local address fe80::1", noIPv6 + "br/0.disable_ipv6=1",
			func(b *builder) {
				b.linkLocal(b.add(&netlink.Bridge{LinkAttrs: named("br.0", nil)}, b.veth0))
			}},
		{"a bridge with a default route", "the default route is over br0 (bridge) above veth0", "", func(b *builder) {
			b.defaultRoute(b.add(&netlink.Bridge{LinkAttrs: named("br0", nil)}, b.veth0), 7)
		}},
		{"a macvlan", "mv0 (macvlan) above veth0 gets packets from it", "", func(b *builder) {
			b.add(macvlan("mv0", b.veth0))
		}},
		{"a macvlan with an address on a bridge", "mv0 (macvlan) above veth0 has the IP address 192.0.2.2", "", func(b *builder) {
			b.address(b.add(macvlan("mv0", b.add(&netlink.Bridge{LinkAttrs: named("br0", nil)}, b.veth0))), "192.0.2.2/24")
		}},
		{"a macvlan in another namespace", "mv0 (macvlan) above veth0, in another network namespace, gets packets from it", "",
			func(b *builder) {
				mv0 := b.add(macvlan("mv0", b.veth0))
				b.do(func() error { return b.other.MoveHere(mv0) })
			}},
		{"the other end of the pair", "", "", func(b *builder) {
			b.do(func() error {
				peer0, err := netlink.LinkByName("peer0")
				b.address(peer0, "192.0.2.2/24")
				return err
			})
		}},
		{"a device of the same index elsewhere", "", "", func(b *builder) {
			known := b.add(&netlink.Veth{LinkAttrs: named("known", nil), PeerName: "known0"})
			b.do(func() error { return b.other.MoveHere(known) }) // so that the namespace has a number here
			b.do(func() error {
				return b.other.Do(func() error {
					twin := named("twin", nil)
					twin.Index = b.veth0.Attrs().Index
					b.add(macvlan("mv0", b.add(&netlink.Bridge{LinkAttrs: twin})))
					return b.err
				})
			})
		}},
		{"a device on one of the same index elsewhere", "", "", func(b *builder) {
			var home *os.File
			b.do(func() (err error) { home, err = os.Open("/proc/thread-self/ns/net"); return err },
				func() error {
					defer home.Close()
					return b.other.Do(func() error {
						twin := named("twin", nil)
						twin.Index = b.veth0.Attrs().Index
						mv0 := b.add(macvlan("mv0", b.add(&netlink.Bridge{LinkAttrs: twin})))
						b.do(func() error { return netlink.LinkSetNsFd(mv0, int(home.Fd())) })
						return b.err
					})
				})
		}},
		{"a VLAN", "veth0.5 (vlan) above veth0 gets packets from it", "", func(b *builder) {
			b.add(&netlink.Vlan{LinkAttrs: named("veth0.5", b.veth0), VlanId: 5})
		}},
		{"a bridge on a VLAN on a bond", "br0 (bridge) above veth0 has the IP address 192.0.2.2", "", func(b *builder) {
			bond := b.add(netlink.NewLinkBond(named("bond1", nil)), b.veth0)
			vlan := b.add(&netlink.Vlan{LinkAttrs: named("bond1.5", bond), VlanId: 5})
			b.address(b.add(&netlink.Bridge{LinkAttrs: named("br0", nil)}, vlan), "192.0.2.2/24")
		}},
		{"a team", "team0 (team) above veth0 has the IP address 192.0.2.2", "", func(b *builder) {
			b.address(b.add(&netlink.GenericLink{LinkAttrs: named("team0", nil), LinkType: "team"}, b.veth0), "192.0.2.2/24")
		}},
		{"a VRF", "vrf0 (vrf) above veth0 has the IP address 192.0.2.2", "", func(b *builder) {
			b.address(b.add(&netlink.Vrf{LinkAttrs: named("vrf0", nil), Table: 7}, b.veth0), "192.0.2.2/24")
		}},
		{"a default route in a VRF", "the default route is over veth0", "", func(b *builder) {
			b.add(&netlink.Vrf{LinkAttrs: named("vrf0", nil), Table: 7}, b.veth0)
			b.defaultRoute(b.veth0, 7)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
				veth0, err := netlink.LinkByName(ifi.Name)
				must(t, err)
				other, err := testnet.NewNamespace()
				must(t, err)
				defer other.Close()
				b := &builder{veth0: veth0, other: other}
				test.build(b)
				// Every kernel that `make test-kernels` boots has all kinds of devices.
				if errors.Is(b.err, unix.EOPNOTSUPP) && !testnet.Emulated() {
					t.Skip("this kernel has no devices of this kind")
				}
				if b.err != nil {
					return b.err
				}
				reason, remedy, err := ifi.Use()
				if diff := cmp.Diff([]string{test.reason, test.remedy}, []string{reason, remedy}); diff != "" {
					t.Error(diff)
				}
				return err
			})
		})
	}
}
