package xdp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%+v", err)
	}
}

// inNamespace makes a veth pair in a namespace of its own, and runs f there with one end that has
// one receive queue.
func inNamespace(t *testing.T, peerQueues int, f func(ifi xdp.Interface) error) {
	t.Helper()
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	must(t, ns.Do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.NumRxQueues, a.NumTxQueues = "veth0", 1, 1
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "peer0", PeerNumTxQueues: uint32(peerQueues), PeerNumRxQueues: 1}))
		for _, name := range []string{"veth0", "peer0"} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			must(t, err)
		}
		ifi, err := xdp.EthernetInterface("veth0")
		must(t, err)
		return f(ifi)
	}))
}

func TestEthernetInterface(t *testing.T) {
	t.Parallel()
	inNamespace(t, 1, func(ifi xdp.Interface) error {
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

// The error of a driver that refuses native mode has the driver's own words where the kernel tells
// them. Generic mode is not taken instead, and nothing stays attached.
func TestRefusedByDriver(t *testing.T) {
	t.Parallel()
	words := ""
	if testnet.TellsRefusals() {
		words = ": veth: XDP expects number of rx queues not less than peer tx queues"
	}
	inNamespace(t, 4, func(ifi xdp.Interface) error {
		return expectRefusal(t, ifi, "attach an XDP program to veth0 in native mode: driver veth: no space left on device"+words)
	})
}

// A driver with native XDP may answer that an operation is not supported, like one without.
func TestRefusedAsUnsupported(t *testing.T) {
	t.Parallel()
	inNamespace(t, 1, func(xdp.Interface) error {
		bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: "bond0"})
		bond.Mode = netlink.BOND_MODE_BROADCAST // in this mode the bond takes no XDP program
		err := netlink.LinkAdd(bond)
		if errors.Is(err, unix.EOPNOTSUPP) && !testnet.Emulated() {
			t.Skip("needs the module bonding")
		}
		if err == nil {
			err = netlink.LinkSetUp(bond)
		}
		must(t, err)
		ifi, err := xdp.EthernetInterface("bond0")
		must(t, err)
		return expectRefusal(t, ifi, "attach an XDP program to bond0 in native mode: driver bonding: operation not supported")
	})
}

func expectRefusal(t *testing.T, ifi xdp.Interface, want string) error {
	t.Helper()
	prog := loadNamed(t, "refused")
	for _, mode := range []xdp.Mode{xdp.Auto, xdp.Native} {
		l, got, err := xdp.Attach(prog, ifi, mode)
		if err == nil {
			l.Close()
			return fmt.Errorf("mode %v: it was attached in mode %v", mode, got)
		}
		if !errors.Is(err, xdp.ErrNoNative) {
			t.Errorf("mode %v: %v is not of the kind %v", mode, err, xdp.ErrNoNative)
		}
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("mode %v: %q, want %q", mode, err, want)
		}
	}
	return nothingAttached(t, ifi)
}

// Only a driver without native XDP is given generic mode without having been asked.
func TestAttachAuto(t *testing.T) {
	t.Parallel()
	prog := loadNamed(t, "auto")
	inNamespace(t, 1, func(veth xdp.Interface) error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge0"}}
		must(t, errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetUp(bridge)))
		for name, want := range map[string]xdp.Mode{"veth0": xdp.Native, "bridge0": xdp.Generic} {
			ifi, err := xdp.EthernetInterface(name)
			must(t, err)
			l, got, err := xdp.Attach(prog, ifi, xdp.Auto)
			must(t, err)
			if got != want {
				t.Errorf("%s: mode %v, want %v", name, got, want)
			}
			must(t, l.Close())
		}
		return nil
	})
}

func nothingAttached(t *testing.T, ifi xdp.Interface) error {
	t.Helper()
	now, err := xdp.InterfaceByName(ifi.Name)
	if len(now.Programs) > 0 {
		t.Errorf("%s stays attached", now.Programs[0])
	}
	return err
}

// An interface that runs a program is left alone, and the error names that program.
func TestAttachBusy(t *testing.T) {
	t.Parallel()
	first, other := loadNamed(t, "first"), loadNamed(t, "other")
	inNamespace(t, 1, func(ifi xdp.Interface) error {
		for _, mode := range []xdp.Mode{xdp.Native, xdp.Generic} {
			l, got, err := xdp.Attach(first, ifi, mode)
			must(t, err)
			if got != mode {
				t.Errorf("it runs in mode %v, want %v", got, mode)
			}
			for _, second := range []xdp.Mode{xdp.Auto, mode} {
				_, _, err = xdp.Attach(other, ifi, second)
				if !errors.Is(err, xdp.ErrBusy) {
					t.Errorf("mode %v beside %v: %v is not of the kind %v", second, mode, err, xdp.ErrBusy)
				} else if !strings.Contains(err.Error(), "veth0 already runs an XDP program, first (id ") {
					t.Errorf("mode %v beside %v: %v", second, mode, err)
				}
			}
			must(t, l.Close())
		}
		return nothingAttached(t, ifi)
	})
}

// A program ends with its link, also where another process has a copy of the link for a moment, as
// a child has before it executes another program.
func TestCloseBesideCopy(t *testing.T) {
	t.Parallel()
	inNamespace(t, 1, func(ifi xdp.Interface) error {
		l, _, err := xdp.Attach(loadNamed(t, "passing"), ifi, xdp.Native)
		must(t, err)
		info, err := l.Info()
		must(t, err)
		held, err := link.NewFromID(info.ID)
		must(t, err)
		defer held.Close()
		must(t, l.Close())
		return nothingAttached(t, ifi)
	})
}
