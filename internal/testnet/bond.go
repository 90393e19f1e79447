package testnet

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// MustBond makes a bond, in the mode active-backup, of the receiving interfaces of pairs, which
// must be in one namespace. It waits until they are up again, and removes the bond at the end of
// the test. An XDP program of the bond runs for packets that come in on any of them. Needs the
// module bonding.
func MustBond(tb TB, name string, pairs ...*Pair) {
	tb.Helper()
	if err := pairs[0].Rx.Do(func() error { return makeBond(name, pairs) }); err != nil {
		tb.Fatalf("make the bond %s: %v", name, err)
	}
	closeAfter(tb, "bond", func() error {
		return pairs[0].Rx.Do(func() error { return netlink.LinkDel(&netlink.Bond{LinkAttrs: netlink.LinkAttrs{Name: name}}) })
	})
	for _, p := range pairs {
		WaitUp(tb, p)
	}
	waitUp(tb, pairs[0].Rx, func() (netlink.Link, error) { return netlink.LinkByName(name) })
}

// makeBond runs inside the namespace.
func makeBond(name string, pairs []*Pair) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	bond := netlink.NewLinkBond(attrs)
	bond.Mode = netlink.BOND_MODE_ACTIVE_BACKUP
	if err := netlink.LinkAdd(bond); err != nil {
		return err
	}
	for _, p := range pairs {
		link, err := netlink.LinkByName(p.RxName)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetDown(link); err != nil { // the driver only accepts interfaces that are down
			return err
		}
		if err := netlink.LinkSetMaster(link, bond); err != nil { // sets it up
			return fmt.Errorf("add %s: %w", p.RxName, err)
		}
	}
	return netlink.LinkSetUp(bond)
}
