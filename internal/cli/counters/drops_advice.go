package counters

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/drops"
)

// advice says what to do about losses whose reason begins with a word, in a function if one is
// given. The first one that fits counts.
var advice = []struct{ reason, where, text string }{
	{"rx_missed", "", "the card has no room: ethtool -G NIC rx N, more queues (ethtool -L), spread their IRQs"},
	{"rx_hw_drops", "", "the card gave them up: its filters and limits (ethtool -n NIC, ethtool -S NIC)"},
	{"rx_errors", "", "packets come in damaged: check cable, transceiver and MTU (ethtool -S NIC)"},
	{"driver", "", "the driver gave them up, mostly for want of memory: see ethtool -S and dmesg"},
	{"tx_errors", "", "the card did not send them: see ethtool -S and the link"},

	{"aborted", "", "the program failed: xdpcap -i NIC --rx-capture exit shows the packets"},
	{"unknown", "", "the program returned a verdict that the kernel does not know"},
	{"redirect: network is down", "", "the target is down: ip link set TARGET up"},
	{"redirect: operation not supported", "", "the target takes no XDP frames: of a veth, ethtool -K PEER gro on"},
	{"redirect: message too long", "", "longer than the target's MTU: its MTU, or gro and tso off at the source"},
	{"redirect:", "", "xdpcap monitor shows the map; is the target up, and does it have native XDP?"},
	{"devmap:", "", "the target cannot keep up: larger tx rings (ethtool -G), more queues"},
	{"tx:", "", "the interface cannot send as fast as it receives: larger tx rings (ethtool -G)"},
	{"cpumap:", "", "that CPU cannot keep up: a larger queue in the map's entry, or more CPUs"},
	{"af_xdp: fill ring empty", "", "the application returns frames too late: a longer fill ring, more frames"},
	{"af_xdp: no frame for it", "", "larger than a frame, or than all that are left: XDP_USE_SG, more frames"},
	{"af_xdp: rx ring full", "", "the application reads too slowly: a longer rx ring, a CPU of its own"},
	{"af_xdp: other queue", "", "the map's entry is a socket of another queue: one per queue, or ethtool -L"},
	{"af_xdp: bad tx", "", "the application sends descriptors outside of its frames"},
	{"drop", "", "the program decided so: xdpcap -i NIC --rx-capture exit shows the packets"},

	{"NO_SOCKET", "cookie_v4_check", "connections come faster than accept: net.core.somaxconn, and listen's backlog"},
	{"NO_SOCKET", "cookie_v6_check", "connections come faster than accept: net.core.somaxconn, and listen's backlog"},
	{"NO_SOCKET", "", "nobody listens on that port: ss -lun, ss -ltn"},
	{"SOCKET_RCVBUFF", "", "the application reads too slowly: a larger SO_RCVBUF (net.core.rmem_max)"},
	{"SOCKET_BACKLOG", "", "the application holds the socket too long: net.core.rmem_max, or more readers"},
	{"SOCKET_FILTER", "", "a filter of the socket refused them (ss -b), which may be right"},
	{"PROTO_MEM", "", "the protocol's memory is full: net.ipv4.udp_mem or tcp_mem"},
	{"TCP_LISTEN_OVERFLOW", "", "connections come faster than accept: net.core.somaxconn, and listen's backlog"},
	{"TCP_REQ_QUEUE_FULL", "", "half-open connections: net.ipv4.tcp_max_syn_backlog, tcp_syncookies=1"},
	{"TCP_LISTEN_DROP", "", "mostly half-open connections: net.ipv4.tcp_max_syn_backlog, tcp_syncookies=1"},
	{"TCP_OFO", "", "segments come out of order faster than memory allows: net.ipv4.tcp_rmem"},
	{"TCP_CSUM", "", "the checksum is wrong: ethtool -K NIC tx off where a virtual card sends"},
	{"TCP_ZEROWINDOW", "", "the application reads too slowly, so its window is closed: ss -tmi"},
	{"TCP_OVERWINDOW", "", "more than the window allows: the application reads too slowly (ss -tmi)"},
	{"TCP_RFC7323_PAWS", "", "an older timestamp than before: several hosts behind one address?"},
	{"TCP_MD5", "", "the signature of TCP (MD5) is missing, wrong or unexpected: keys on both sides"},
	{"TCP_AO", "", "the signature of TCP (AO) is missing, wrong or unexpected: keys on both sides"},
	{"TCP_", "", "TCP refused the segment: nstat -az 'TcpExt*' and ss -tin show more"},
	{"UDP_CSUM", "", "the checksum is wrong: ethtool -K NIC tx off where a virtual card sends"},
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
	{"IP_NOPROTO", "", "no module of this kernel has that protocol of IP: ss -lw, lsmod"},
	{"IP_INVALID_SOURCE", "", "nobody can have that source address: who sends them? (log_martians)"},
	{"IP_INVALID_DEST", "", "nobody can have that destination address: who sends them? (log_martians)"},
	{"IP_LOCAL_SOURCE", "", "another host uses an address of this one as its source: who sends them?"},
	{"IP_LOCALNET", "", "127.0.0.0/8 from outside: who sends them? (net.ipv4.conf.NIC.route_localnet)"},
	{"XFRM_POLICY", "", "a policy of IPsec refuses them: ip xfrm policy"},
	{"PKT_TOO_SMALL", "", "shorter than its headers say: who sends them?"},
	{"PKT_TOO_BIG", "", "larger than the MTU of the way out: ip link, path MTU discovery"},
	{"FRAG_", "", "fragments are missing: is one of them lost on the way?"},
	{"DUP_FRAG", "", "the same fragment came twice: a loop, or who sends them?"},
	{"CPU_BACKLOG", "", "the CPU's queue is full: net.core.netdev_max_backlog, RPS to more CPUs"},
	{"OTHERHOST", "", "for this host, in a VLAN that no interface here has: ip -d link show type vlan"},
	{"UNHANDLED_PROTO", "ip6_protocol_deliver_rcu", "an extension header of IPv6 that this kernel does not know"},
	{"UNHANDLED_PROTO", "", "no protocol of this machine takes them: is it the right EtherType, or VLAN?"},
	{"NEIGH_", "", "the neighbour does not answer: ip neigh show nud failed"},
	{"NO_TX_TARGET", "", "the bridge has no port for them, or the bond no link: bridge link, ip link"},
	{"VXLAN_", "", "the tunnel refused them: its VNI and remotes (ip -d link show type vxlan, bridge fdb)"},
	{"TUNNEL_", "", "the tunnel refused them: its settings on both sides (ip -d link)"},
	{"BRIDGE_", "", "the port of the bridge does not forward: bridge link, bridge vlan"},
	{"MAC_", "", "the address is not allowed there: who sends them? (ip -d link)"},

	{"QDISC_", "", "the queue of what is sent is full, or the link is down: tc -s qdisc show dev NIC, ip link"},
	{"FQ_", "", "a limit of the queue fq: tc -s qdisc show dev NIC"},
	{"FULL_RING", "", "who reads the tun or tap is too slow: a longer queue (ip link set NIC txqueuelen N)"},
	{"TC_", "", "a filter or program of tc: tc -s filter show dev NIC, bpftool net"},
	{"BPF_CGROUP_EGRESS", "", "a program of a cgroup: bpftool cgroup tree"},
	{"DEV_READY", "", "the interface is not up"},
	{"DEV_HDR", "", "the device refused the header: ip -d link"},
	{"NOMEM", "", "the kernel has no memory: free -h, vm.min_free_kbytes"},
	{"SKB_", "", "the kernel found the packet damaged or had no memory for it: who sends them?"},

	{"NOT_SPECIFIED", "neigh_invalidate", "the neighbour does not answer: ip neigh show nud failed"},
	{"NOT_SPECIFIED", "ip_error", "no route, or one that refuses (blackhole, prohibit): ip route get ADDRESS"},
	{"NOT_SPECIFIED", "ip6_pkt_drop", "no route, or one that refuses (blackhole, prohibit): ip -6 route get ADDRESS"},
	{"NOT_SPECIFIED", "dst_discard", "a route that refuses (blackhole): ip route get ADDRESS"},
	{"NOT_SPECIFIED", "br_dev_queue_push_xmit", "longer than the MTU of the bridge's port: ip link"},
	{"NOT_SPECIFIED", "br_nf_dev_queue_xmit", "longer than the MTU of the bridge's port: ip link"},
	{"NOT_SPECIFIED", "br_handle_frame_finish", "for a host behind the same port, or of a VLAN not allowed there: bridge fdb"},
	{"NOT_SPECIFIED", "__udp4_lib_rcv", "a policy of IPsec refuses them: ip xfrm policy"},
	{"NOT_SPECIFIED", "__udp6_lib_rcv", "a policy of IPsec refuses them: ip xfrm policy"},
	{"NOT_SPECIFIED", "", "the kernel gives no reason: look up the function in its sources"},
}

// adviceFor returns a line for each cause that differs in what to do about it, that of most packets
// first.
func adviceFor(losses []drops.LossRate) (lines []string) {
	packets := make(map[string]uint64)
	for _, l := range losses {
		for _, a := range advice {
			if strings.HasPrefix(l.Reason, a.reason) && (a.where == "" || a.where == l.Where) {
				line := strings.TrimRight(a.reason, ":") + ": " + a.text
				if packets[line] == 0 {
					lines = append(lines, line)
				}
				packets[line] += l.Packets
				break
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(packets[b], packets[a]) })
	return lines
}
