package xdp_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A watch sees a program come, be replaced and go, and sees the interface under a new name, from a
// thread in another namespace. It says so when the interface is deleted.
func TestHookWatch(t *testing.T) {
	t.Parallel()
	first, second := testnet.MustPassing(t, "first"), testnet.MustPassing(t, "second")
	var watch *xdp.HookWatch
	var l link.Link
	testnet.WithVeth(t, 1, func(ifi xdp.Interface) (err error) {
		if watch, err = xdp.WatchHook(ifi.Index); err != nil {
			return err
		}
		t.Cleanup(watch.Close)
		expect := func(when, name string, program uint32) {
			t.Helper()
			done := make(chan struct{})
			go func() { // this goroutine is locked to the thread in the namespace, others are not
				defer close(done)
				want := xdp.HookState{Name: name, Program: program}
				if program != 0 {
					want.Mode = packet.Native
				}
				if s, err := watch.Look(); err != nil || s != want {
					t.Errorf("%s: %+v, %v; want %+v", when, s, err, want)
				}
			}()
			<-done
		}
		expect("at first", "veth0", 0)
		if l, err = link.AttachXDP(link.XDPOptions{Program: first, Interface: ifi.Index, Flags: link.XDPDriverMode}); err != nil {
			return err
		}
		expect("attached", "veth0", mustIdentify(t, first))
		must(t, l.Update(second))
		expect("replaced", "veth0", mustIdentify(t, second))
		veth, err := netlink.LinkByName("veth0")
		must(t, err)
		// Before 6.2, only an interface that is down can be renamed.
		must(t, errors.Join(netlink.LinkSetDown(veth), netlink.LinkSetName(veth, "renamed0")))
		expect("renamed", "renamed0", mustIdentify(t, second))
		must(t, xdp.Link{Link: l}.Close())
		expect("detached", "renamed0", 0)
		return netlink.LinkDel(veth)
	})
	if _, err := watch.Look(); !errors.Is(err, xdp.ErrGone) {
		t.Errorf("deleted: %v is not of the kind %v", err, xdp.ErrGone)
	}
}

func mustIdentify(t *testing.T, prog *ebpf.Program) uint32 {
	t.Helper()
	p, err := xdp.Identify(prog)
	must(t, err)
	return p.ID
}
