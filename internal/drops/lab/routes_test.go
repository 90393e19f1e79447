package lab

import (
	"errors"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// forward makes the receiving side forward to out0, whose other end nobody answers at.
func (l *lab) forward() (out *testnet.Pair) {
	l.Helper()
	out = testnet.MustPair(l, testnet.PairOptions{Tx: l.Rx, TxName: "out0", RxName: "far0"})
	l.set("ipv4/ip_forward", "1")
	l.set("ipv4/conf/all/rp_filter", "0")
	l.set("ipv4/conf/rx0/rp_filter", "0")
	l.set("ipv4/conf/all/send_redirects", "0")
	addresses := []string{"198.51.100.1/24"}
	if l.cause.v6 {
		l.set("ipv6/conf/all/forwarding", "1")
		l.set("ipv6/conf/out0/disable_ipv6", "0")
		addresses = append(addresses, "2001:db8:1::1/64")
	}
	l.must(l.Rx.Do(func() error {
		link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: out.TxIndex}}
		for _, a := range addresses {
			address, err := netlink.ParseAddr(a)
			l.must(err)
			address.Flags = unix.IFA_F_NODAD
			l.must(netlink.AddrAdd(link, address))
		}
		errs := []error{netlink.LinkSetARPOn(link)}
		for _, ip := range []net.IP{beyond, beyond6}[:len(addresses)] {
			errs = append(errs, netlink.NeighSet(&netlink.Neigh{LinkIndex: out.TxIndex, IP: ip, HardwareAddr: testnet.TxEndpoint.MAC, State: netlink.NUD_PERMANENT}))
		}
		if l.cause.v6 {
			errs = append(errs, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.RxIndex, IP: tx6, HardwareAddr: testnet.TxEndpoint.MAC, State: netlink.NUD_PERMANENT}))
		}
		return errors.Join(errs...)
	}))
	return out
}

// forwards is a cause for which packets are forwarded.
func forwards(p packet) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		l.forward()
		return sends(p)(l)
	}
}

// route adds a route of a type to a network.
func (l *lab) route(kind int, network string) {
	l.Helper()
	l.must(l.Rx.Do(func() error {
		_, dst, err := net.ParseCIDR(network)
		l.must(err)
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Type: kind})
	}))
}

// forwardsTo is a cause for which packets are forwarded along a route of a type.
func forwardsTo(kind int, network string, p packet) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		l.forward()
		l.route(kind, network)
		return sends(p)(l)
	}
}

// narrow makes the MTU of the way out smaller than the packets.
func narrow(p packet) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		out := l.forward()
		l.must(l.Rx.Do(func() error {
			return netlink.LinkSetMTU(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: out.TxIndex}}, 1280)
		}))
		p.payload = datagram(9, 1400)
		return sends(p)(l)
	}
}

const dontFragment = 0x4000

// askQuickly lets a neighbour's address be given up early.
func (l *lab) askQuickly() {
	l.Helper()
	for _, family := range []string{"ipv4", "ipv6"} {
		if family == "ipv6" && !l.cause.v6 {
			continue
		}
		l.set(family+"/neigh/out0/retrans_time_ms", "20")
		l.set(family+"/neigh/out0/mcast_solicit", "1")
	}
}

var ofRoutes = []cause{
	{name: "rp_filter", do: func(l *lab) uint64 {
		l.set("ipv4/conf/rx0/rp_filter", "1")
		return sends(packet{src: elsewhere})(l)
	}, found: "stack IP_RPFILTER ip_rcv_finish_core", advice: "the way back", culprit: "from 203.0.113.9 at rx0: the way back is no route"},
	{name: "host that does not forward", do: sends(packet{dst: elsewhere}), found: "stack IP_INADDRERRORS ip_error|stack NOT_SPECIFIED ip_error|stack IP_INADDRERRORS *", advice: "forward"},
	{name: "no route", do: forwards(packet{dst: elsewhere}), found: "stack IP_INNOROUTES ip_error|stack NOT_SPECIFIED ip_error|stack IP_INNOROUTES *", advice: "ip route get", culprit: "to 203.0.113.9 from 192.0.2.1 at rx0: no route"},
	{name: "route that is unreachable", do: forwardsTo(unix.RTN_UNREACHABLE, "203.0.113.0/24", packet{dst: elsewhere}), found: "stack NOT_SPECIFIED ip_error|stack IP_INNOROUTES *", advice: "ip route get", culprit: "to 203.0.113.9 from 192.0.2.1 at rx0: no route, or one of the type unreachable"},
	{name: "route that prohibits", do: forwardsTo(unix.RTN_PROHIBIT, "203.0.113.0/24", packet{dst: elsewhere}), found: "stack NOT_SPECIFIED ip_error", advice: "prohibit", culprit: "to 203.0.113.9 from 192.0.2.1 at rx0: a route of the type prohibit"},
	{name: "route that is a black hole", do: forwardsTo(unix.RTN_BLACKHOLE, "203.0.113.0/24", packet{dst: elsewhere}), found: "stack NOT_SPECIFIED ip_error|stack NOT_SPECIFIED dst_discard*", advice: "blackhole", culprit: "to 203.0.113.9 from 192.0.2.1 at rx0: a route of the type blackhole"},
	{name: "time to live", do: forwards(packet{dst: beyond, ttl: 1}), found: "stack IP_INHDR ip_forward", advice: "time to live"},
	{name: "MTU of the way out", do: narrow(packet{dst: beyond, frag: dontFragment}), found: "stack PKT_TOO_BIG ip_forward|stack NOT_SPECIFIED ip_forward", advice: "MTU", culprit: "to 198.51.100.2: dev out0, MTU of the interface 1280"},
	{name: "neighbour that does not answer", do: func(l *lab) uint64 {
		l.forward()
		l.askQuickly()
		return l.send(3, packet{dst: net.IP{198, 51, 100, 77}}.frame())
	}, found: "egress NEIGH_FAILED neigh_invalidate|stack NEIGH_FAILED neigh_invalidate|stack NOT_SPECIFIED neigh_invalidate|stack NOT_SPECIFIED arp_error_report", device: "out0", advice: "neighbour does not answer", culprit: "198.51.100.77 at out0 does not answer"},
	{name: "too many for a neighbour", do: func(l *lab) uint64 {
		l.forward()
		l.set("ipv4/neigh/out0/unres_qlen_bytes", "1") // one waits, whatever its size
		l.set("ipv4/neigh/out0/retrans_time_ms", "60000")
		f := packet{dst: net.IP{198, 51, 100, 77}, payload: datagram(9, 1000)}.frame()
		l.send(1, f)
		return l.send(each, f)
	}, found: "egress NEIGH_QUEUEFULL __neigh_event_send|stack NEIGH_QUEUEFULL __neigh_event_send", device: "out0", advice: "neighbour does not answer", culprit: "198.51.100.77 at out0 does not answer"},
	{name: "IPv6: host that does not forward", v6: true, do: sends(packet{dst: net.ParseIP("2001:db8::77")}), found: "stack IP_INADDRERRORS *|stack NOT_SPECIFIED ip6_forward", advice: "forward"},
	{name: "IPv6: no route", v6: true, do: forwards(packet{dst: elsewhere6}), found: "stack IP_INNOROUTES ip6_pkt_*", advice: "ip route get", culprit: "to 2001:db8:9::9 from 2001:db8::1 at rx0: no route"},
	{name: "IPv6: route that prohibits", v6: true, do: forwardsTo(unix.RTN_PROHIBIT, "2001:db8:9::/64", packet{dst: elsewhere6}), found: "stack IP_INNOROUTES ip6_pkt_*|stack NOT_SPECIFIED ip6_pkt_*", advice: "route get", culprit: "to 2001:db8:9::9 from 2001:db8::1 at rx0: a route of the type prohibit"},
	{name: "IPv6: route that is a black hole", v6: true, do: forwardsTo(unix.RTN_BLACKHOLE, "2001:db8:9::/64", packet{dst: elsewhere6}), found: "stack NOT_SPECIFIED dst_discard*", advice: "blackhole", culprit: "to 2001:db8:9::9 from 2001:db8::1 at rx0: a route of the type blackhole"},
	{name: "IPv6: hop limit", v6: true, do: forwards(packet{dst: beyond6, ttl: 1}), found: "stack IP_INHDR ip6_forward", advice: "hop limit"},
	{name: "IPv6: MTU of the way out", v6: true, do: narrow(packet{dst: beyond6}), found: "stack PKT_TOO_BIG ip6_forward", device: "out0", advice: "MTU", culprit: "to 2001:db8:1::2: dev out0, MTU of the interface 1280"},
	{name: "IPv6: neighbour that does not answer", v6: true, do: func(l *lab) uint64 {
		l.forward()
		l.askQuickly()
		return l.send(3, packet{dst: net.ParseIP("2001:db8:1::77")}.frame())
	}, found: "egress NEIGH_FAILED neigh_invalidate|stack NEIGH_FAILED neigh_invalidate|stack NOT_SPECIFIED neigh_invalidate|stack NOT_SPECIFIED ndisc_error_report", device: "out0", advice: "neighbour does not answer", culprit: "2001:db8:1::77 at out0 does not answer"},
}
