package counters

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// An adviceRow is the advice about the losses whose reason begins with a word, in any function or
// in those that match a pattern of path.Match. In the text NIC and TARGET stand for interfaces.
type adviceRow struct{ reason, where, text string }

// untracedAdvice replaces tracedAdvice where the program cannot be traced.
const untracedAdvice = "xdpcap cannot trace it here, see docs/tracing.md"

const tracedAdvice = "xdpcap -i NIC --rx-capture exit shows the packets"

// advice has all advice. The first row that matches a loss has precedence.
var advice = []adviceRow{
	{"rx_missed", "", "no room in the card: ethtool -G NIC rx N, more queues (ethtool -L)"},
	{"rx_hw_drops", "", "the card gave them up: its filters and limits (ethtool -n and -S NIC)"},
	{"rx_errors", "", "packets come in damaged: check cable, transceiver and MTU (ethtool -S NIC)"},
	{"driver", "", "the driver gave them up, mostly for want of memory: see ethtool -S and dmesg"},
	{"tx_errors", "", "the card did not send them: see ethtool -S and the link"},

	{"aborted", "", "the program failed: " + tracedAdvice},
	{"unknown", "", "the program returned a verdict that the kernel does not know"},
	{"redirect: network is down", "", "the target is down: ip link set TARGET up"},
	{"redirect: operation not supported", "", "the target takes no XDP frames: of a veth, ethtool -K PEER gro on"},
	{"redirect: message too long", "", "longer than the target's MTU: its MTU, or gro and tso off at the source"},
	{"redirect:", "", "xdpcap monitor shows the map; is the target up, with native XDP?"},
	{"devmap: no such device or address", "", "the target takes no XDP frames: of a veth, ethtool -K PEER gro on"},
	{"devmap:", "", "the target cannot keep up: larger tx rings (ethtool -G), more queues"},
	{"tx:", "", "the interface cannot send as fast as it receives: larger tx rings (ethtool -G)"},
	{"cpumap:", "", "that CPU cannot keep up: a larger queue in the map's entry, or more CPUs"},
	{"af_xdp: fill ring empty", "", "the application returns frames too late: a longer fill ring, more frames"},
	{"af_xdp: no frame for it", "", "larger than a frame, or than all that are left: XDP_USE_SG, more frames"},
	{"af_xdp: rx ring full", "", "the application reads too slowly: a longer rx ring, a CPU of its own"},
	{"af_xdp: other queue", "", "the map's entry is a socket of another queue: one per queue, or ethtool -L"},
	{"af_xdp: bad tx", "", "the application sends descriptors outside of its frames"},
	{"drop", "xdpcap_drop *", "xdpcap stats --action drop runs there, and drops all packets until it ends"},
	{"drop", "", "the program decided so: " + tracedAdvice},

	{"NO_SOCKET", "cookie_v?_check", "connections come faster than accept: net.core.somaxconn, and listen's backlog"},
	{"NO_SOCKET", "", "nobody listens on that port: ss -lun, ss -ltn"},
	{"SOCKET_RCVBUFF", "", "the application reads too slowly: a larger SO_RCVBUF (net.core.rmem_max)"},
	{"SOCKET_BACKLOG", "", "the application holds the socket too long: net.core.rmem_max, or more readers"},
	{"SOCKET_FILTER", "", "a filter of the socket refused them (ss -b), which may be right"},
	{"PROTO_MEM", "", "the protocol's memory is full: net.ipv4.udp_mem or tcp_mem"},
	{"TCP_LISTEN_OVERFLOW", "", "connections come faster than accept: net.core.somaxconn, and listen's backlog"},
	{"TCP_REQ_QUEUE_FULL", "", "half-open connections: net.ipv4.tcp_max_syn_backlog, tcp_syncookies=1"},
	{"TCP_LISTEN_DROP", "", "mostly half-open connections: net.ipv4.tcp_max_syn_backlog, tcp_syncookies=1"},
	{"TCP_OFO", "", "segments come out of order faster than memory allows: net.ipv4.tcp_rmem"},
	{"TCP_CSUM", "", "the checksum is wrong: tx offload (ethtool -K) of a virtual card that sends them?"},
	{"TCP_ZEROWINDOW", "", "the application reads too slowly, so its window is closed: ss -tmi"},
	{"TCP_OVERWINDOW", "", "more than the window allows: the application reads too slowly (ss -tmi)"},
	{"TCP_RFC7323_PAWS", "", "an older timestamp than before: several hosts behind one address?"},
	{"TCP_MD5", "", "the signature of TCP (MD5) is missing, wrong or unexpected: keys on both sides"},
	{"TCP_AO", "", "the signature of TCP (AO) is missing, wrong or unexpected: keys on both sides"},
	{"TCP_INVALID_END_SEQUENCE", "", "more than the window allows: the application reads too slowly (ss -tmi)"},
	{"TCP_MINTTL", "", "its time to live is below what the socket demands (IP_MINTTL): who sends them?"},
	{"TCP_", "", "TCP refused the segment: nstat -az 'TcpExt*' and ss -tin show more"},
	{"UDP_CSUM", "", "the checksum is wrong: tx offload (ethtool -K) of a virtual card that sends them?"},
	{"ICMP_CSUM", "", "the checksum of ICMP is wrong: who sends them?"},

	{"IP_RPFILTER", "", "the way back goes through another interface: net.ipv4.conf.*.rp_filter, or the routes"},
	{"NETFILTER_DROP", "", "a rule of the firewall: nft list ruleset, iptables -nvL"},
	{"IP_INNOROUTES", "", "no route back or forward: ip route get ADDRESS"},
	{"IP_OUTNOROUTES", "", "no route: ip route get ADDRESS"},
	{"IP_CSUM", "", "the checksum of the IP header is wrong: who sends them?"},
	{"IP_INHDR", "ip_forward", "its time to live ends here: a loop of routes, or traceroute"},
	{"IP_INHDR", "ip6_forward", "its hop limit ends here: a loop of routes, or traceroute"},
	{"IP_INHDR", "", "the IP header is damaged: who sends them?"},
	{"IP_INADDRERRORS", "", "for another host, and this one does not forward: net.ipv4.ip_forward, ip route get"},
	{"IPV6DISABLED", "", "IPv6 is off at that interface: net.ipv6.conf.NIC.disable_ipv6"},
	{"IP_NOPROTO", "", "no module has that protocol of IP (lsmod), or a raw socket reads too slowly (ss -lw)"},
	{"IP_INVALID_SOURCE", "", "nobody can have that source address: who sends them? (log_martians)"},
	{"IP_INVALID_DEST", "", "nobody can have that destination address: who sends them? (log_martians)"},
	{"IP_LOCAL_SOURCE", "", "another host uses an address of this one as its source: who sends them?"},
	{"IP_LOCALNET", "", "127.0.0.0/8 from outside: who sends them? (sysctl route_localnet of NIC)"},
	{"XFRM_POLICY", "", "a policy of IPsec refuses them: ip xfrm policy"},
	{"PKT_TOO_SMALL", "", "shorter than its headers say: who sends them?"},
	{"PKT_TOO_BIG", "", "larger than the MTU of the way out: ip link, path MTU discovery"},
	{"FRAG_", "", "fragments are missing: is one of them lost on the way?"},
	{"DUP_FRAG", "", "the same fragment came twice: a loop, or who sends them?"},
	{"CPU_BACKLOG", "", "the CPU's queue is full: net.core.netdev_max_backlog, RPS to more CPUs"},
	{"OTHERHOST", "", "for this host, in a VLAN that no interface here has: ip -d link show type vlan"},
	{"UNHANDLED_PROTO", "ip6_protocol_deliver_rcu", "an extension header of IPv6 that this kernel does not know"},
	{"UNHANDLED_PROTO", "ip6_tlvopt_unknown", "an option of IPv6 that this kernel does not know: who sends them?"},
	{"UNHANDLED_PROTO", "ip6_*", "the IP header is damaged: who sends them?"},
	{"UNICAST_IN_L2_MULTICAST", "", "a broadcast frame for one address: sysctl drop_unicast_in_l2_multicast"},
	{"UNHANDLED_PROTO", "", "no protocol of this machine takes them: is it the right EtherType, or VLAN?"},
	{"NEIGH_", "", "the neighbour does not answer: ip neigh show nud failed"},
	{"NO_TX_TARGET", "vxlan_xmit", "no remote has that address: bridge fdb show dev NIC"},
	{"NO_TX_TARGET", "", "the bridge has no port for them, or the bond no link: bridge link, ip link"},
	{"VXLAN_", "", "the tunnel refused them: VNI and remotes (ip -d link show type vxlan)"},
	{"TUNNEL_", "", "the tunnel refused them: its settings on both sides (ip -d link)"},
	{"BRIDGE_", "", "the port of the bridge does not forward: bridge link, bridge vlan"},
	{"MAC_", "", "the address is not allowed there: who sends them? (ip -d link)"},

	{"QDISC_", "", "queue full, or the link is down: tc -s qdisc show dev NIC, ip link"},
	{"FQ_", "", "a limit of the queue fq: tc -s qdisc show dev NIC"},
	{"FULL_RING", "", "who reads the tun or tap is too slow: ip link set NIC txqueuelen N"},
	{"TC_", "", "a filter or program of tc: tc -s filter show dev NIC, bpftool net"},
	{"BPF_CGROUP_EGRESS", "", "a program of a cgroup: bpftool cgroup tree"},
	{"DEV_READY", "", "the interface is not up"},
	{"DEV_HDR", "", "the device refused the header: ip -d link"},
	{"NOMEM", "", "the kernel has no memory: free -h, vm.min_free_kbytes"},
	{"SKB_", "", "the kernel found the packet damaged or had no memory for it: who sends them?"},

	{"NOT_SPECIFIED", "neigh_invalidate", "the neighbour does not answer: ip neigh show nud failed"},
	{"NOT_SPECIFIED", "ip_error", "no route, or one that refuses (blackhole, prohibit): ip route get ADDRESS"},
	{"NOT_SPECIFIED", "ip6_pkt_*", "no route, or one that refuses (blackhole, prohibit): ip -6 route get ADDRESS"},
	{"NOT_SPECIFIED", "ip_rcv_finish_core", "an address that nobody can have, or options (a source route): who sends them?"},
	{"NOT_SPECIFIED", "gre_rcv", "no tunnel here has these addresses or this key: ip -d link show type gre"},
	{"NOT_SPECIFIED", "tunnel?*_rcv", "no tunnel here has these addresses: ip -d link show type ipip, sit, ip6tnl"},
	{"NOT_SPECIFIED", "udp*_recvmsg", "the checksum is wrong: tx offload (ethtool -K) of a virtual card that sends them?"},
	{"NOT_SPECIFIED", "ip_defrag", "fragments that overlap or come twice: who sends them?"},
	{"NOT_SPECIFIED", "ipv6_frag_rcv", "fragments that overlap or come twice: who sends them?"},
	{"NOT_SPECIFIED", "ip_expire", "fragments are missing: is one of them lost on the way?"},
	{"NOT_SPECIFIED", "*frag*", "fragments are missing: is one of them lost on the way?"},
	{"NOT_SPECIFIED", "ipv6_rthdr_rcv", "a routing header that this host refuses: who sends them? (accept_source_route)"},
	{"NOT_SPECIFIED", "dst_discard*", "a route that refuses (blackhole): ip route get ADDRESS"},
	{"NOT_SPECIFIED", "br_dev_queue_push_xmit", "longer than the MTU of the bridge's port: ip link"},
	{"NOT_SPECIFIED", "br_nf_dev_queue_xmit", "longer than the MTU of the bridge's port: ip link"},
	{"NOT_SPECIFIED", "*allowed_ingress", "the port of the bridge does not allow that VLAN: bridge vlan"},
	{"NOT_SPECIFIED", "br_handle_frame", "the port of the bridge does not forward: bridge link"},
	{"NOT_SPECIFIED", "br_handle_frame_finish", "the port does not forward (its VLAN), or the host is behind it: bridge link"},
	{"NOT_SPECIFIED", "vxlan_xmit", "no remote has that address: bridge fdb show dev NIC"},
	{"NOT_SPECIFIED", "vxlan_rcv", "the tunnel refused them: its VNI and remotes (ip -d link show type vxlan)"},
	{"NOT_SPECIFIED", "__udp?_lib_rcv", "a policy of IPsec refuses them: ip xfrm policy"},
	{"NOT_SPECIFIED", "", "the kernel gives no reason: look up the function in its sources"},
}

// adviceFor returns a line for each advice, ordered by the packets that it is about. A line begins
// with the causes, and names the interface of the largest loss. iface is the interface of -i, "" =
// all; untraced means that its XDP program cannot be traced.
func adviceFor(losses []drops.LossRate, iface string, untraced bool) (lines []string) {
	type line struct {
		causes  []string
		text    string
		packets uint64
	}
	byRow := make(map[int]*line) // by index in advice
	losses = slices.Clone(losses)
	slices.SortStableFunc(losses, func(a, b drops.LossRate) int { return cmp.Compare(b.Packets, a.Packets) })
	for _, l := range losses {
		row := adviceIndex(l.Loss)
		if row < 0 {
			continue
		}
		if byRow[row] == nil {
			byRow[row] = &line{text: adviceOf(l.Loss, iface, untraced)}
		}
		one := byRow[row]
		if cause := shownCause(l.Loss); !slices.Contains(one.causes, cause) {
			one.causes = append(one.causes, cause)
		}
		one.packets += l.Packets
	}
	for _, row := range slices.SortedFunc(maps.Keys(byRow), func(a, b int) int {
		return cmp.Or(cmp.Compare(byRow[b].packets, byRow[a].packets), cmp.Compare(a, b))
	}) {
		causes, text := byRow[row].causes, byRow[row].text
		for len(causes) > 1 && len(strings.Join(causes, ", ")+": "+text) > frame.MaxColumns {
			causes = causes[:len(causes)-1]
		}
		lines = append(lines, message.Escape(strings.Join(causes, ", ")+": "+text))
	}
	return lines
}

// causeWidth is the most columns of a cause in the lines below the table.
const causeWidth = 25

// shownCause names a loss in the lines below the table: by its reason or, if the kernel gives none,
// by its function.
func shownCause(l drops.Loss) string {
	if l.Reason == "NOT_SPECIFIED" && l.Where != "" {
		return frame.Shorten(l.Where, causeWidth)
	}
	return frame.Shorten(l.Reason, causeWidth)
}

// adviceIndex returns the row of advice for a loss; -1 = there is none.
func adviceIndex(l drops.Loss) int {
	return slices.IndexFunc(advice, func(a adviceRow) bool {
		ok, _ := path.Match(a.where, l.Where)
		return strings.HasPrefix(l.Reason, a.reason) && (a.where == "" || ok)
	})
}

// adviceOf returns the advice for a loss, with the names of its interfaces; "" = there is none.
func adviceOf(l drops.Loss, iface string, untraced bool) string {
	i := adviceIndex(l)
	if i < 0 {
		return ""
	}
	device, target := l.Device, "TARGET"
	if device == "" || device == "?" || device == meter.Gone {
		device = iface
	}
	if device == "" || device == frame.AnyInterface {
		device = "INTERFACE"
	}
	if to, ok := strings.CutPrefix(l.Where, "to "); ok {
		target = to
	}
	text := advice[i].text
	if untraced {
		text = strings.Replace(text, tracedAdvice, untracedAdvice, 1)
	}
	return strings.NewReplacer("NIC", device, "TARGET", target).Replace(text)
}
