// Package testnet makes networks to test on: private network namespaces joined by veth pairs, the
// frames to send through them, and a traffic generator of millions of packets per second. System
// tests, the demo and the benchmark share it. It only touches interfaces that it has made.
//
// A pair is silent until a test sends packets: it has no addresses, no ARP and no IPv6. A test can
// therefore count exactly its own packets.
package testnet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

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
// Sender send on Tx; XDP is run on Rx. Its methods may be called concurrently.
type Pair struct {
	Tx, Rx           *Namespace
	TxName, RxName   string
	TxIndex, RxIndex int // interface indexes, each in its own namespace

	tx *netlink.Handle

	mu     sync.Mutex
	opened *Sender // used by Send; nil before its first call
}

// MustPair makes a pair and sets it up. At the end of the test it removes the pair, and the
// namespaces that were made for it. Without root it skips the test.
func MustPair(tb TB, opts PairOptions) *Pair {
	tb.Helper()
	RequireRoot(tb)
	p := &Pair{Tx: opts.Tx, Rx: opts.Rx, TxName: cmp.Or(opts.TxName, "tx0"), RxName: cmp.Or(opts.RxName, "rx0")}
	for _, e := range p.ends() {
		if *e.ns == nil {
			*e.ns = MustNamespace(tb)
		}
	}
	var err error
	p.tx, err = netlink.NewHandleAt(p.Tx.handle, unix.NETLINK_ROUTE)
	Must(tb, err)
	closeAfter(tb, "pair", p.close)
	if err := p.tx.LinkAdd(p.veth(opts)); err != nil {
		tb.Fatalf("make veth pair %s, %s: %v", p.TxName, p.RxName, err)
	}
	p.setUp(tb, opts)
	if opts.GRO {
		Must(tb, p.Rx.Do(func() error { return setGRO(p.RxName) }))
	}
	return p
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

// setUp sets both ends up, and waits until they can send.
func (p *Pair) setUp(tb TB, opts PairOptions) {
	tb.Helper()
	for _, e := range p.ends() {
		if err := (*e.ns).Do(func() error { return e.setUp(opts) }); err != nil {
			tb.Fatalf("set up %s: %v", e.name, err)
		}
	}
	WaitUp(tb, p)
	if opts.IPv6 {
		for _, e := range p.ends() {
			waitReachable(tb, *e.ns, e.IPv6)
		}
	}
}

// setUp gives an interface its addresses, if any, and sets it up. It runs inside the namespace.
func (e end) setUp(opts PairOptions) error {
	link, err := netlink.LinkByName(e.name)
	if err != nil {
		return err
	}
	*e.index = link.Attrs().Index
	if opts.IPv6 {
		if err := setIPv6(e.name, true); err != nil {
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
}

// waitReachable waits until a namespace accepts packets to one of its IPv6 addresses. A worker of
// the kernel makes a new IPv6 address usable, even without duplicate address detection: it joins
// the multicast group of the address's neighbour solicitations, and then adds the address's local
// route. Earlier solicitations are ignored. The other end repeats them twice, a second apart, then
// gives up and drops the packet. The worker can take longer than that, because it waits for a lock
// that the removal of other namespaces holds.
func waitReachable(tb TB, ns *Namespace, ip net.IP) {
	tb.Helper()
	WaitFor(tb, fmt.Sprintf("a local route for %v", ip), func() (ok bool) {
		Must(tb, ns.Do(func() (err error) {
			ok, err = hasLocalRoute(ip)
			return err
		}))
		return ok
	})
}

// hasLocalRoute reports whether the calling thread's namespace accepts packets to an IPv6 address.
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

// close removes the pair.
func (p *Pair) close() error {
	defer p.tx.Close()
	errs := []error{p.closeSender()}
	// Removing one end removes the other. It may be gone already: tests of a capture's reaction
	// remove it.
	link, err := p.tx.LinkByName(p.TxName)
	if err == nil {
		err = p.tx.LinkDel(link)
	}
	if gone := (netlink.LinkNotFoundError{}); err != nil && !errors.As(err, &gone) {
		errs = append(errs, fmt.Errorf("remove %s: %w", p.TxName, err))
	}
	return errors.Join(errs...)
}

// closeSender closes the Sender that Send has opened, if any.
func (p *Pair) closeSender() error {
	if p.opened == nil {
		return nil
	}
	return p.opened.Close()
}
