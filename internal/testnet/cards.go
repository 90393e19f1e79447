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
	if err != nil {
		tb.Fatalf("open own network namespace: %v", err)
	}
	closeAfter(tb, "network namespace", home.Close)
	cards, err := findCards(driver)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	p := &Pair{TxName: "tx0", RxName: "rx0"}
	closeAfter(tb, "pair", func() error {
		return errors.Join(p.giveBack(home, p.Tx, p.TxIndex), p.giveBack(home, p.Rx, p.RxIndex), p.Close())
	})
	if err := p.makeOf(cards, opts); err != nil {
		tb.Fatalf("%v", err)
	}
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

// makeOf moves the cards into namespaces of their own, and sets them up.
func (p *Pair) makeOf(cards []xdp.Interface, opts PairOptions) error {
	for i, e := range p.ends() {
		if err := p.own(e); err != nil {
			return err
		}
		card := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: cards[i].Index}}
		if err := (*e.ns).MoveHere(card); err != nil {
			return fmt.Errorf("move %s: %w", cards[i].Name, err)
		}
		err := (*e.ns).Do(func() error {
			moved, err := netlink.LinkByName(cards[i].Name)
			if err != nil {
				return err
			}
			*e.index = moved.Attrs().Index
			return errors.Join(netlink.LinkSetName(moved, e.name), netlink.LinkSetHardwareAddr(moved, e.MAC))
		})
		if err != nil {
			return fmt.Errorf("name %s: %w", cards[i].Name, err)
		}
	}
	return p.setUp(opts)
}

// giveBack moves a card back into the namespace that it came from.
func (p *Pair) giveBack(home netns.NsHandle, ns *Namespace, index int) error {
	if ns == nil || index == 0 {
		return nil
	}
	return ns.Do(func() error {
		card := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
		name := fmt.Sprintf("card%d", index)
		return errors.Join(netlink.LinkSetDown(card), netlink.LinkSetName(card, name), netlink.LinkSetNsFd(card, int(home)))
	})
}
