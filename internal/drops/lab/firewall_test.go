package lab

import (
	"net"

	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// filters is a cause for which the receiving side's firewall drops packets.
func filters(c chain, p packet) func(*lab) uint64 {
	return func(l *lab) uint64 {
		l.Helper()
		l.addChain(c)
		return sends(p)(l)
	}
}

func dropAt(family, hook int, device string) chain {
	return chain{family: family, hook: hook, device: device, policy: accept, rule: dropTo(9)}
}

// write sends datagrams of the receiving side's own. Some systems calls end with an error.
func (l *lab) write(network, address string) uint64 {
	l.Helper()
	l.begin()
	l.must(l.Rx.Do(func() error {
		conn, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range each {
			conn.Write(make([]byte, 100))
		}
		return nil
	}))
	return each
}

const (
	refusedByRule = "nft list ruleset"

	byRule    = "stack NETFILTER_DROP nf_hook_slow|stack NETFILTER_DROP nft_do_chain" // the latter since Linux 6.12
	byRuleOut = "egress NETFILTER_DROP nf_hook_slow|egress NETFILTER_DROP nft_do_chain"
)

var ofFirewall = []cause{
	{name: "rule at prerouting", do: filters(dropAt(familyInet, hookPrerouting, ""), packet{}), found: byRule, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "rule at input", do: filters(dropAt(familyInet, hookInput, ""), packet{}), found: byRule, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "rule at forward", do: func(l *lab) uint64 {
		l.forward()
		return filters(dropAt(familyInet, hookForward, ""), packet{dst: beyond})(l)
	}, found: byRule, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "rule at postrouting", do: func(l *lab) uint64 {
		l.forward()
		return filters(dropAt(familyInet, hookPostrouting, ""), packet{dst: beyond})(l)
	}, found: byRule, device: "out0", advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "rule at output", do: func(l *lab) uint64 {
		l.addChain(dropAt(familyInet, hookOutput, ""))
		return l.write("udp4", "192.0.2.1:9")
	}, found: byRuleOut, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "rule at ingress", do: filters(dropAt(familyNetdev, hookIngress, "rx0"), packet{}), found: byRule, advice: refusedByRule, culprit: "nft netdev t c, handle 2: th dport 9 drop"},
	{name: "rule at egress", do: func(l *lab) uint64 {
		l.addChain(dropAt(familyNetdev, hookEgress, "rx0"))
		return l.write("udp4", "192.0.2.1:9")
	}, found: byRuleOut, advice: refusedByRule, culprit: "nft netdev t c, handle 2: th dport 9 drop"},
	{name: "policy of a chain", do: filters(chain{family: familyInet, hook: hookInput}, packet{}), found: byRule, advice: refusedByRule, culprit: "the only rule without a counter: nft inet t c, policy: drop"},
	{name: "rule that rejects", do: filters(chain{family: familyInet, hook: hookInput, policy: accept, rule: rejectTo(9)}, packet{}), found: byRule, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 reject"},
	{name: "IPv6: rule at input", v6: true, do: filters(dropAt(familyInet, hookInput, ""), packet{dst: rx6}), found: byRule, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "IPv6: rule at output", v6: true, do: func(l *lab) uint64 {
		l.addChain(dropAt(familyInet, hookOutput, ""))
		return l.write("udp6", "[2001:db8::1]:9")
	}, found: byRuleOut, advice: refusedByRule, culprit: "nft inet t c, handle 2: th dport 9 drop"},
	{name: "rule of a bridge", do: func(l *lab) uint64 {
		l.bridge()
		return filters(dropAt(familyBridge, hookPrerouting, ""), packet{})(l)
	}, found: byRule, advice: refusedByRule, culprit: "nft bridge t c, handle 2: th dport 9 drop"},
	{name: "NAT without free ports", do: func(l *lab) uint64 {
		l.forward()
		l.addChain(chain{family: familyInet, hook: hookPostrouting, policy: accept, kind: "nat", rule: snatTo(net.IP{198, 51, 100, 1}, 5000)})
		l.begin()
		lost := uint64(0)
		for i := range each {
			d := datagram(9, 100)
			d[0], d[1] = 40, byte(i)
			lost += l.send(1, packet{dst: beyond, payload: d}.frame())
		}
		return lost - 1
	}, found: byRule, device: "out0", advice: refusedByRule, culprit: "conntrack: no free port for NAT (insert_failed"},
	{name: "policy of IPsec in", do: func(l *lab) uint64 {
		l.refuse(netlink.XFRM_DIR_IN)
		return sends(packet{payload: datagram(l.udpPort("udp4", 0), 100)})(l)
	}, found: "stack XFRM_POLICY *|stack NOT_SPECIFIED *udp*", advice: "ip xfrm policy", culprit: "dir in src 0.0.0.0/0 dst 0.0.0.0/0 action block"},
	{name: "policy of IPsec forward", do: func(l *lab) uint64 {
		l.forward()
		l.refuse(netlink.XFRM_DIR_FWD)
		return sends(packet{dst: beyond})(l)
	}, found: "stack XFRM_POLICY ip_forward|stack NOT_SPECIFIED ip_forward", advice: "ip xfrm policy", culprit: "dir fwd src 0.0.0.0/0 dst 0.0.0.0/0 action block"},
}

// refuse makes a policy of IPsec refuse all packets of a direction.
func (l *lab) refuse(way netlink.Dir) {
	l.Helper()
	l.must(l.Rx.Do(func() error {
		all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		return netlink.XfrmPolicyAdd(&netlink.XfrmPolicy{Src: all, Dst: all, Dir: way, Action: netlink.XFRM_POLICY_BLOCK})
	}))
}

// udpPort opens a socket of the receiving side that nobody reads, with a receive buffer of that
// size if it is not 0, and returns its port.
func (l *lab) udpPort(network string, buffer int) uint16 {
	l.Helper()
	return uint16(l.listen(network, buffer).LocalAddr().(*net.UDPAddr).Port)
}

func (l *lab) listen(network string, buffer int) *net.UDPConn {
	l.Helper()
	return l.listenAt(network, 0, buffer)
}

// listenAt is listen at a port, 0 = any that is free.
func (l *lab) listenAt(network string, port, buffer int) (conn *net.UDPConn) {
	l.Helper()
	l.must(l.Rx.Do(func() (err error) {
		conn, err = net.ListenUDP(network, &net.UDPAddr{Port: port})
		return err
	}))
	l.Cleanup(func() { conn.Close() })
	if buffer != 0 {
		l.must(conn.SetReadBuffer(buffer))
	}
	return conn
}

// bridge makes rx0 a port of a bridge with its address, and returns the bridge. It is changed
// before it is up.
func (l *lab) bridge(changes ...func(*netlink.Bridge) error) (b *netlink.Bridge) {
	l.Helper()
	silent := false
	b = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}, MulticastSnooping: &silent}
	l.must(l.Rx.Do(func() error {
		l.must(netlink.LinkAdd(b))
		rx := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: l.RxIndex}}
		l.must(netlink.LinkSetHardwareAddr(b, testnet.RxEndpoint.MAC))
		l.must(netlink.LinkSetMaster(rx, b))
		for _, change := range changes {
			l.must(change(b))
		}
		return netlink.LinkSetUp(b)
	}))
	return b
}
