package testnet

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// MustCards makes a pair of the emulated machine's network cards, in place of a veth pair, and
// gives the cards back at the end of the test. On other machines it skips the test. A packet that
// was sent has not arrived yet, because qemu brings it when the machine waits.
func MustCards(tb TB, opts PairOptions) *Pair {
	tb.Helper()
	return MustCardsOf(tb, "virtio_net", opts)
}

// MustCardsOf is MustCards for the cards of a driver: virtio_net or vmxnet3.
func MustCardsOf(tb TB, driver string, opts PairOptions) *Pair {
	tb.Helper()
	if !Emulated() {
		tb.Skipf("needs two network cards that are connected: the machine of make test-kernels has them")
	}
	home, err := netns.Get()
	Must(tb, err)
	closeAfter(tb, "network namespace", home.Close)
	cards, err := findCards(driver)
	Must(tb, err)
	p := &Pair{TxName: "tx0", RxName: "rx0"}
	closeAfter(tb, "pair", p.closeSender)
	for i, e := range p.ends() {
		*e.ns = MustNamespace(tb)
		p.move(tb, e, cards[i], home)
	}
	p.setUp(tb, opts)
	return p
}

// findCards returns the first two cards of a driver in this namespace.
func findCards(driver string) (cards []xdp.Interface, err error) {
	all, err := xdp.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, ifi := range all {
		if ifi.Driver == driver {
			cards = append(cards, ifi)
		}
	}
	if len(cards) < 2 {
		return nil, fmt.Errorf("%d cards of the driver %s among %+v, want two", len(cards), driver, all)
	}
	return cards[:2], nil
}

// move moves a card into the namespace of an end, and back at the end of the test.
func (p *Pair) move(tb TB, e end, card xdp.Interface, home netns.NsHandle) {
	tb.Helper()
	if err := (*e.ns).MoveHere(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: card.Index}}); err != nil {
		tb.Fatalf("move %s: %v", card.Name, err)
	}
	closeAfter(tb, "card", func() error {
		if *e.index == 0 {
			return nil // not found in the namespace
		}
		return (*e.ns).Do(func() error {
			moved := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: *e.index}}
			name := fmt.Sprintf("card%d", *e.index)
			return errors.Join(netlink.LinkSetDown(moved), netlink.LinkSetName(moved, name), netlink.LinkSetNsFd(moved, int(home)))
		})
	})
	err := (*e.ns).Do(func() error {
		moved, err := netlink.LinkByName(card.Name)
		if err != nil {
			return err
		}
		*e.index = moved.Attrs().Index
		return errors.Join(netlink.LinkSetName(moved, e.name), netlink.LinkSetHardwareAddr(moved, e.MAC))
	})
	if err != nil {
		tb.Fatalf("name %s: %v", card.Name, err)
	}
}
