package xdp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// inNamespace makes a veth pair in a namespace of its own, and runs f there with one end that has
// one receive queue.
func inNamespace(t *testing.T, peerQueues int, f func(ifi xdp.Interface) error) {
	t.Helper()
	testnet.RequireRoot(t)
	ns, err := testnet.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	err = ns.Do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.NumRxQueues, a.NumTxQueues = "veth0", 1, 1
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "peer0", PeerNumTxQueues: uint32(peerQueues), PeerNumRxQueues: 1}); err != nil {
			return err
		}
		for _, name := range []string{"veth0", "peer0"} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return err
			}
		}
		ifi, err := xdp.EthernetInterface("veth0")
		if err != nil {
			return err
		}
		return f(ifi)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEthernetInterface(t *testing.T) {
	inNamespace(t, 1, func(ifi xdp.Interface) error {
		l, err := netlink.LinkByName(ifi.Name)
		if err == nil {
			err = netlink.LinkSetDown(l)
		}
		if err == nil {
			err = netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN})
		}
		if err != nil {
			return err
		}
		for name, want := range map[string]string{
			"veth0": "veth0 is down: ip link set dev veth0 up",
			"tun0": `tun0 is not an Ethernet interface (its link type is "none"): ` +
				"packets without an Ethernet header are not understood",
			// More may follow: the kernel makes tunnels in new namespaces where it has the modules.
			"nosuch": `interface "nosuch" does not exist; there are: lo, `,
			"any":    "interface any: an XDP program runs for one interface, not for all; there are: lo, ",
		} {
			if _, err := xdp.EthernetInterface(name); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		return nil
	})
}

// The error of a driver that refuses native mode has the driver's own words, which only netlink
// gives. Other users of the netlink package do not notice, and nothing stays attached.
func TestRefusedByDriver(t *testing.T) {
	prog := loadNamed(t, "refused")
	inNamespace(t, 4, func(ifi xdp.Interface) error {
		for _, mode := range []xdp.Mode{xdp.Auto, xdp.Native} {
			l, _, err := xdp.Attach(prog, ifi, mode)
			if err == nil {
				l.Close()
				return fmt.Errorf("mode %v: it was attached", mode)
			}
			if !errors.Is(err, xdp.ErrNoNative) {
				t.Errorf("mode %v: %v is not of the kind %v", mode, err, xdp.ErrNoNative)
			}
			for _, want := range []string{"attach an XDP program to veth0 in native mode: driver veth: ", "number of rx queues"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("mode %v: %q does not say %q", mode, err, want)
				}
			}
		}
		if nl.EnableErrorMessageReporting {
			t.Error("all sockets of the netlink package ask for messages now")
		}
		return nothingAttached(t, ifi)
	})
}

// What netlink attaches when the second try succeeds is taken away again.
func TestDriverMessageUndone(t *testing.T) {
	prog := loadNamed(t, "accepted")
	inNamespace(t, 1, func(ifi xdp.Interface) error {
		refused := unix.EINVAL
		if err := xdp.DriverMessage(prog, ifi, refused); !errors.Is(err, refused) {
			t.Errorf("%v, want the first error, %v", err, refused)
		}
		return nothingAttached(t, ifi)
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
	first, other := loadNamed(t, "first"), loadNamed(t, "other")
	inNamespace(t, 1, func(ifi xdp.Interface) error {
		for _, mode := range []xdp.Mode{xdp.Native, xdp.Generic} {
			l, got, err := xdp.Attach(first, ifi, mode)
			if err != nil {
				return err
			}
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
			if err := l.Close(); err != nil {
				return err
			}
		}
		return nothingAttached(t, ifi)
	})
}
