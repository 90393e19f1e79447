// Package testnet makes networks to test on: private network namespaces joined by veth pairs, the
// frames to send through them, and a traffic generator of millions of packets per second. System
// tests, the demo and the benchmark share it. It only touches interfaces that it has made.
//
// A pair is silent until a test sends packets: it has no addresses, no ARP and no IPv6. A test can
// therefore count exactly its own packets.
package testnet

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// PairOptions describes a Pair. The zero value is a silent pair tx0 and rx0 of
// one queue, MTU 1500, in two new namespaces.
type PairOptions struct {
	Tx, Rx         *Namespace // nil: a new namespace, closed with the pair
	TxName, RxName string     // "": tx0 and rx0
	MTU            int        // bytes after the Ethernet header; 0: 1500
	Queues         int        // receive and transmit queues of either side; 0: 1
	Addresses      bool       // TxEndpoint's and RxEndpoint's IPv4 addresses, and ARP
	IPv6           bool       // their IPv6 addresses; the pair is then not silent, because of neighbour discovery

	// GRO turns on generic receive offload on Rx. With it Rx accepts the Generator's frames even
	// without an XDP program.
	GRO bool
}

// Pair is a veth pair: a packet sent on one interface arrives on the other. The Generator and the
// Sender send on Tx; XDP is run on Rx. Its methods may be called concurrently. Close is called
// once, after all others.
type Pair struct {
	Tx, Rx           *Namespace
	TxName, RxName   string
	TxIndex, RxIndex int // interface indexes, each in its own namespace

	owned []*Namespace
	tx    *netlink.Handle

	mu     sync.Mutex
	opened *Sender // used by Send; nil before its first call
}

// NewPair makes a pair and sets it up. After an error no part of it is left. Needs root.
func NewPair(opts PairOptions) (*Pair, error) {
	p := &Pair{Tx: opts.Tx, Rx: opts.Rx, TxName: opts.TxName, RxName: opts.RxName}
	if p.TxName == "" {
		p.TxName = "tx0"
	}
	if p.RxName == "" {
		p.RxName = "rx0"
	}
	if err := p.make(opts); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Pair) make(opts PairOptions) error {
	for _, e := range p.ends() {
		if *e.ns == nil {
			if err := p.own(e); err != nil {
				return err
			}
		}
	}
	tx, err := netlink.NewHandleAt(p.Tx.handle, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	p.tx = tx
	if err := tx.LinkAdd(p.veth(opts)); err != nil {
		return fmt.Errorf("make veth pair %s, %s: %w", p.TxName, p.RxName, err)
	}
	if err := p.setUp(opts); err != nil {
		return err
	}
	if opts.GRO {
		return p.Rx.Do(func() error { return setGRO(p.RxName) })
	}
	return nil
}

// An end is one side of a pair.
type end struct {
	ns    **Namespace
	name  string
	index *int
	Endpoint
}

func (p *Pair) ends() []end {
	return []end{{&p.Tx, p.TxName, &p.TxIndex, TxEndpoint}, {&p.Rx, p.RxName, &p.RxIndex, RxEndpoint}}
}

// own makes a namespace for an end, which is closed with the pair.
func (p *Pair) own(e end) (err error) {
	if *e.ns, err = NewNamespace(); err == nil {
		p.owned = append(p.owned, *e.ns)
	}
	return err
}

// setUp sets both ends up, and waits until they can send.
func (p *Pair) setUp(opts PairOptions) (err error) {
	for _, e := range p.ends() {
		if *e.index, err = setUp(*e.ns, e.name, e.Endpoint, opts); err != nil {
			return err
		}
	}
	for _, e := range p.ends() {
		if err := (*e.ns).Do(func() error { return waitReady(e.name, e.Endpoint, opts) }); err != nil {
			return err
		}
	}
	return nil
}

// pairsMade counts pairs, so that each Tx has its own interface index.
var pairsMade atomic.Int32

// veth creates the same number of queues on both sides: the driver refuses XDP programs on a
// receiver with fewer queues than the sender. By default it would make one per CPU and use the
// first.
//
// Tx's index is set explicitly, because both ends would have the same one in two new namespaces.
// Linux then treats them as interfaces without a peer, whose changes can wait: before 6.8 they
// could send only after a second.
func (p *Pair) veth(opts PairOptions) *netlink.Veth {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = p.TxName
	attrs.Index = 1000 + int(pairsMade.Add(1)) // a namespace counts up from 1
	attrs.MTU = opts.MTU
	attrs.HardwareAddr = TxEndpoint.MAC
	attrs.NumTxQueues = max(opts.Queues, 1)
	attrs.NumRxQueues = max(opts.Queues, 1)
	if attrs.MTU == 0 {
		attrs.MTU = 1500
	}
	return &netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         p.RxName,
		PeerHardwareAddr: RxEndpoint.MAC,
		PeerNamespace:    netlink.NsFd(p.Rx.handle),
		PeerTxQLen:       -1,
	}
}

// setUp gives an interface its addresses, if any, and sets it up.
func setUp(ns *Namespace, name string, e Endpoint, opts PairOptions) (index int, err error) {
	err = ns.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		index = link.Attrs().Index
		if opts.IPv6 {
			if err := setIPv6(name, true); err != nil {
				return err
			}
			// No duplicate address detection, which would delay the use of the address.
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: e.IPv6, Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return err
			}
		}
		if opts.Addresses {
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: e.IPv4, Mask: net.CIDRMask(24, 32)}}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return err
			}
		} else if !opts.IPv6 { // neighbour discovery needs ARP's flag, too
			if err := netlink.LinkSetARPOff(link); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(link)
	})
	if err != nil {
		return 0, fmt.Errorf("set up %s: %w", name, err)
	}
	return index, nil
}

// readyLimit guards against a hang: under load, an emulated machine takes seconds.
const readyLimit = time.Minute

// waitReady waits until an interface can send, and answers for its addresses. It runs inside the
// namespace.
func waitReady(name string, e Endpoint, opts PairOptions) error {
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(time.Millisecond) {
		missing, err := notReady(name, e, opts)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v after it was set up, %s", readyLimit, missing)
		}
	}
}

// notReady returns the missing condition of an interface; "" if it is ready.
func notReady(name string, e Endpoint, opts PairOptions) (string, error) {
	// The kernel lets an interface send only some time after both ends are up, and silently drops
	// earlier packets.
	link, err := netlink.LinkByName(name)
	if err != nil {
		return "", err
	}
	if state := link.Attrs().OperState; state != netlink.OperUp {
		return fmt.Sprintf("%s is %s", name, state), nil
	}
	if !opts.IPv6 {
		return "", nil
	}
	// A worker of the kernel makes a new IPv6 address usable, even without duplicate address
	// detection: it joins the multicast group of the address's neighbour solicitations, and then
	// adds the address's local route. Earlier solicitations are ignored. The other end repeats them
	// twice, a second apart, then gives up and drops the packet. The worker can take longer than
	// that, because it waits for a lock that the removal of other namespaces holds.
	ok, err := hasLocalRoute(e.IPv6)
	if err != nil {
		return "", err
	}
	if !ok {
		return fmt.Sprintf("%s has no local route for %v", name, e.IPv6), nil
	}
	return "", nil
}

// hasLocalRoute reports whether the namespace accepts packets to an IPv6 address.
func hasLocalRoute(ip net.IP) (bool, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{
		Table: unix.RT_TABLE_LOCAL,
		Type:  unix.RTN_LOCAL,
		Dst:   &net.IPNet{IP: ip, Mask: net.CIDRMask(128, 128)},
	}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE|netlink.RT_FILTER_DST)
	return len(routes) > 0, err
}

// PairStats are a pair's counters for the direction from Tx to Rx, cumulative since the pair was
// made. The driver counts: it updates them once per batch of the receiver.
type PairStats struct {
	Delivered uint64 // packets that Rx took, before any verdict on them
	Dropped   uint64 // packets that found Rx's ring (256 packets a queue) full
}

// Stats reads the counters. Frames that a Generator sent while Rx had neither an XDP program nor
// GRO are in neither of them.
func (p *Pair) Stats() (PairStats, error) {
	link, err := p.tx.LinkByIndex(p.TxIndex)
	if err != nil {
		return PairStats{}, fmt.Errorf("read statistics of %s: %w", p.TxName, err)
	}
	s := link.Attrs().Statistics
	return PairStats{Delivered: s.TxPackets, Dropped: s.TxDropped}, nil
}

// sender returns the Sender that all calls of Send share, because the kernel needs some ten
// milliseconds to close a packet socket.
func (p *Pair) sender() (s *Sender, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened == nil {
		p.opened, err = NewSender(p.Tx, p.TxName)
	}
	return p.opened, err
}

// Close removes the pair, and the namespaces that were made for it.
func (p *Pair) Close() error {
	var errs []error
	if p.opened != nil {
		errs = append(errs, p.opened.Close())
	}
	if p.tx != nil {
		// Removing one end removes the other. It may be gone already, because some tests remove it
		// to see the capture's reaction.
		link, err := p.tx.LinkByName(p.TxName)
		if err == nil {
			err = p.tx.LinkDel(link)
		}
		if gone := (netlink.LinkNotFoundError{}); err != nil && !errors.As(err, &gone) {
			errs = append(errs, fmt.Errorf("remove %s: %w", p.TxName, err))
		}
		p.tx.Close()
	}
	for _, ns := range p.owned {
		errs = append(errs, ns.Close())
	}
	return errors.Join(errs...)
}
