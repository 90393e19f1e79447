package testnet

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An Upper is a way to put devices above Rx, of which the last one has Rx's IPv4 address: packets
// to that address go through all of them.
type Upper struct {
	Name  string                                // of the last device's kind
	VLAN  int                                   // the ID of the VLAN that is the last device, 0 = none
	below func(TB, *Pair) (netlink.Link, error) // makes the devices below the VLAN, and returns the last one
}

// Uppers are all of them.
var Uppers = []Upper{
	{"VLAN", 7, rxLink},
	{"bridge", 0, addBridge},
	{"VLAN on a bridge", 7, addBridge},
	{"bond", 0, addBond},
}

// Frame returns a frame as the last device's host sends it.
func (u *Upper) Frame(b []byte) []byte {
	if u.VLAN != 0 {
		return VLAN(b, uint16(u.VLAN))
	}
	return b
}

// MustAdd adds the devices above the Rx of a pair with Addresses, and returns the last one's name.
// It skips the test if the kernel does not have a kind; the kernels of `make test-kernels` have
// all.
func (u *Upper) MustAdd(tb TB, p *Pair) (name string) {
	tb.Helper()
	last, err := u.below(tb, p)
	if err == nil {
		err = p.Rx.Do(func() error {
			if u.VLAN != 0 {
				last, err = addLink(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("vlan%d", u.VLAN), ParentIndex: last.Attrs().Index}, VlanId: u.VLAN})
			}
			if err != nil {
				return err
			}
			return moveAddress(p, last)
		})
	}
	if errors.Is(err, unix.EOPNOTSUPP) && !Emulated() {
		tb.Skipf("this kernel has no interfaces of the kind %s", u.Name)
	}
	if err != nil {
		tb.Fatalf("add a %s: %v", u.Name, err)
	}
	return last.Attrs().Name
}

func rxLink(_ TB, p *Pair) (netlink.Link, error) {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: p.RxName, Index: p.RxIndex}}, nil
}

// addBridge makes Rx a port of a bridge.
func addBridge(_ TB, p *Pair) (bridge netlink.Link, err error) {
	err = p.Rx.Do(func() error {
		if bridge, err = addLink(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}); err != nil {
			return err
		}
		rx := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: p.RxIndex}}
		// The bridge's address is set, because it would change with the ports.
		return errors.Join(netlink.LinkSetMaster(rx, bridge), netlink.LinkSetHardwareAddr(bridge, RxEndpoint.MAC))
	})
	return bridge, err
}

// addBond makes Rx a port of a bond that has another one.
func addBond(tb TB, p *Pair) (bond netlink.Link, err error) {
	const name = "bond0"
	if err := p.Rx.Do(func() error {
		probe := netlink.NewLinkBond(netlink.LinkAttrs{Name: "probe0"})
		return errors.Join(netlink.LinkAdd(probe), netlink.LinkDel(probe))
	}); errors.Is(err, unix.EOPNOTSUPP) {
		return nil, err
	}
	MustBond(tb, name, p, MustPair(tb, PairOptions{Rx: p.Rx, TxName: "tx1", RxName: "rx1"}))
	err = p.Rx.Do(func() error {
		bond, err = netlink.LinkByName(name)
		return err
	})
	return bond, err
}

// addLink adds an interface to the calling thread's namespace, and sets it up.
func addLink(l netlink.Link) (netlink.Link, error) {
	if err := netlink.LinkAdd(l); err != nil {
		return nil, err
	}
	made, err := netlink.LinkByName(l.Attrs().Name)
	if err != nil {
		return nil, err
	}
	return made, netlink.LinkSetUp(made)
}

// moveAddress gives Rx's addresses to another interface of its namespace. The bond has taken away
// the IPv4 address of its ports.
func moveAddress(p *Pair, to netlink.Link) error {
	address, err := netlink.ParseAddr(RxEndpoint.IPv4.String() + "/24")
	if err != nil {
		return err
	}
	rx := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: p.RxIndex}}
	if err := netlink.AddrDel(rx, address); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return errors.Join(netlink.AddrAdd(to, address), netlink.LinkSetHardwareAddr(to, RxEndpoint.MAC),
		os.WriteFile("/proc/sys/net/ipv4/conf/"+to.Attrs().Name+"/rp_filter", []byte("0"), 0))
}
