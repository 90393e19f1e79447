package attach_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// must ends the test if there is an error.
var must = testnet.Must

// The error of a driver that refuses native mode has the driver's own words where the kernel tells
// them. Generic mode is not taken instead, and nothing stays attached.
func TestRefusedByDriver(t *testing.T) {
	t.Parallel()
	words := ""
	if testnet.ExplainsRefusals() {
		words = ": veth: XDP expects number of rx queues not less than peer tx queues"
	}
	testnet.WithVeth(t, 4, func(ifi xdp.Interface) error {
		return expectRefusal(t, ifi, "attach an XDP program to veth0 in native mode: driver veth: no space left on device"+words)
	})
}

// A driver with native XDP may answer that an operation is not supported, like one without.
func TestRefusedAsUnsupported(t *testing.T) {
	t.Parallel()
	testnet.WithVeth(t, 1, func(xdp.Interface) error {
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
	prog := testnet.MustPassing(t, "refused")
	for _, mode := range []packet.Mode{packet.Auto, packet.Native} {
		a, err := attach.XDP(ifi, prog, mode)
		if err == nil {
			a.Close()
			return fmt.Errorf("mode %v: it was attached in mode %v", mode, a.Mode)
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
	prog := testnet.MustPassing(t, "auto")
	testnet.WithVeth(t, 1, func(veth xdp.Interface) error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge0"}}
		must(t, errors.Join(netlink.LinkAdd(bridge), netlink.LinkSetUp(bridge)))
		for name, want := range map[string]packet.Mode{"veth0": packet.Native, "bridge0": packet.Generic} {
			ifi, err := xdp.EthernetInterface(name)
			must(t, err)
			a, err := attach.XDP(ifi, prog, packet.Auto)
			must(t, err)
			if a.Mode != want {
				t.Errorf("%s: mode %v, want %v", name, a.Mode, want)
			}
			must(t, a.Close())
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
	first, other := testnet.MustPassing(t, "first"), testnet.MustPassing(t, "other")
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
		for _, mode := range []packet.Mode{packet.Native, packet.Generic} {
			a, err := attach.XDP(ifi, first, mode)
			must(t, err)
			if a.Mode != mode {
				t.Errorf("it runs in mode %v, want %v", a.Mode, mode)
			}
			for _, second := range []packet.Mode{packet.Auto, mode} {
				_, err = attach.XDP(ifi, other, second)
				if !errors.Is(err, xdp.ErrBusy) {
					t.Errorf("mode %v beside %v: %v is not of the kind %v", second, mode, err, xdp.ErrBusy)
				} else if !strings.Contains(err.Error(), "veth0 already runs an XDP program, first (id ") {
					t.Errorf("mode %v beside %v: %v", second, mode, err)
				}
			}
			must(t, a.Close())
		}
		return nothingAttached(t, ifi)
	})
}

// A program ends with its link, also where another process has a copy of the link for a moment, as
// a child has before it executes another program.
func TestCloseBesideCopy(t *testing.T) {
	t.Parallel()
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
		a, err := attach.XDP(ifi, testnet.MustPassing(t, "passing"), packet.Native)
		must(t, err)
		info, err := a.Link().Info()
		must(t, err)
		held, err := link.NewFromID(info.ID)
		must(t, err)
		defer held.Close()
		must(t, a.Close())
		return nothingAttached(t, ifi)
	})
}

// The same program is attached again by another link, unless it was detached.
func TestAgain(t *testing.T) {
	t.Parallel()
	prog := testnet.MustPassing(t, "passing")
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
		a, err := attach.XDP(ifi, prog, packet.Auto)
		must(t, err)
		before, err := a.Link().Info()
		must(t, err)
		must(t, a.Again())
		after, err := a.Link().Info()
		must(t, err)
		if after.ID == before.ID || after.Program != before.Program || a.Check() != nil {
			t.Errorf("it is attached by %+v, before %+v: %v", after, before, a.Check())
		}
		if now, err := xdp.InterfaceByName(ifi.Name); err != nil || now.Mode != packet.Native {
			t.Errorf("mode %v, %v", now.Mode, err)
		}
		must(t, a.Link().Detach())
		if err := a.Again(); err == nil {
			t.Error("it is attached again after it was detached")
		}
		must(t, a.Link().Close())
		return nothingAttached(t, ifi)
	})
}

// Check tells whose program has left, and that an interface has gone, wherever a program is
// attached.
func TestCheck(t *testing.T) {
	t.Parallel()
	received := testnet.MustPassing(t, "received")
	sent, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "sent", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	must(t, err)
	defer sent.Close()
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) error {
		a, err := attach.XDP(ifi, received, packet.Native)
		must(t, err)
		must(t, a.Check())
		must(t, a.Link().Detach())
		want := fmt.Sprintf("XDP program %v has left veth0, which runs none now", a.Own)
		if err := a.Check(); err == nil || err.Error() != want {
			t.Errorf("detached: %v, want %s", err, want)
		}
		must(t, a.Link().Close())
		all := make([]*attach.Attachment, 3)
		all[0], err = attach.XDP(ifi, received, packet.Generic)
		must(t, err)
		for i, at := range []tc.Direction{tc.Egress, tc.Ingress} {
			all[i+1], err = attach.TC(ifi, sent, at)
			must(t, err)
		}
		for _, a := range all {
			must(t, a.Check())
		}
		must(t, netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: ifi.Name}}))
		for i, a := range all {
			if err := a.Check(); !errors.Is(err, xdp.ErrGone) {
				t.Errorf("attachment %d: %v, want an ErrGone", i, err)
			}
			a.Close() // an XDP link has gone with its interface, which is an error
		}
		return nil
	})
}
