package drops

import "strings"

// advice says what to do about losses whose reason begins with a word. The first one that fits
// counts.
var advice = []struct{ reason, text string }{
	{"rx_missed", "the card has no room: ethtool -G NIC rx N, more queues (ethtool -L), spread their IRQs"},
	{"rx_hw_drops", "the card gave them up: its filters and limits (ethtool -n NIC, ethtool -S NIC)"},
	{"rx_errors", "packets come in damaged: check cable, transceiver and MTU (ethtool -S NIC)"},
	{"driver", "the driver gave them up, mostly for want of memory: see ethtool -S and dmesg"},
	{"tx_errors", "the card did not send them: see ethtool -S and the link"},
	{"aborted", "the program failed: xdpcap -i NIC --rx-capture exit shows the packets"},
	{"unknown", "the program returned a verdict that the kernel does not know"},
	{"redirect:", "xdpcap monitor shows the map; is the target up, and does it have native XDP?"},
	{"devmap:", "the target cannot keep up: larger tx rings (ethtool -G), more queues"},
	{"cpumap:", "that CPU cannot keep up: a larger queue in the map's entry, or more CPUs"},
	{"af_xdp: fill ring empty", "the application returns frames too late: a longer fill ring, more frames"},
	{"af_xdp: no frame for it", "larger than a frame, or than all that are left: XDP_USE_SG, more frames"},
	{"af_xdp: rx ring full", "the application reads too slowly: a longer rx ring, a CPU of its own"},
	{"af_xdp: other queue", "the map's entry is a socket of another queue: one per queue, or ethtool -L"},
	{"af_xdp: bad tx", "the application sends descriptors outside of its frames"},
	{"drop", "the program decided so: xdpcap -i NIC --rx-capture exit shows the packets"},
	{"NO_SOCKET", "nobody listens on that port: ss -lun, ss -ltn"},
	{"SOCKET_RCVBUFF", "the application reads too slowly: a larger SO_RCVBUF (net.core.rmem_max)"},
	{"SOCKET_BACKLOG", "the application holds the socket too long: net.core.rmem_max, or more readers"},
	{"SOCKET_FILTER", "a filter of the socket refused them (ss -b), which may be right"},
	{"PROTO_MEM", "the protocol's memory is full: net.ipv4.udp_mem or tcp_mem"},
	{"TCP_LISTEN_OVERFLOW", "connections come faster than accept: net.core.somaxconn, and listen's backlog"},
	{"TCP_REQ_QUEUE_FULL", "half-open connections: net.ipv4.tcp_max_syn_backlog, tcp_syncookies=1"},
	{"TCP_LISTEN_DROP", "mostly half-open connections: net.ipv4.tcp_max_syn_backlog, tcp_syncookies=1"},
	{"TCP_OFO", "segments come out of order faster than memory allows: net.ipv4.tcp_rmem"},
	{"IP_RPFILTER", "the way back goes through another interface: net.ipv4.conf.*.rp_filter, or the routes"},
	{"NETFILTER_DROP", "a rule of the firewall: nft list ruleset, iptables -nvL"},
	{"IP_INNOROUTES", "no route back or forward: ip route get ADDRESS"},
	{"IP_OUTNOROUTES", "no route: ip route get ADDRESS"},
	{"IP_CSUM", "the checksum of the IP header is wrong: who sends them?"},
	{"UDP_CSUM", "the checksum is wrong: ethtool -K NIC tx off where a virtual card sends"},
	{"TCP_CSUM", "the checksum is wrong: ethtool -K NIC tx off where a virtual card sends"},
	{"CPU_BACKLOG", "the CPU's queue is full: net.core.netdev_max_backlog, RPS to more CPUs"},
	{"UNHANDLED_PROTO", "no protocol of this machine takes them: wrong VLAN, LLDP, STP?"},
	{"NEIGH_", "the neighbour does not answer: ip neigh show nud failed"},
	{"QDISC_", "the queue of what is sent is full: tc -s qdisc show dev NIC"},
	{"FQ_", "a limit of the queue fq: tc -s qdisc show dev NIC"},
	{"TC_", "a filter or program of tc: tc -s filter show dev NIC, bpftool net"},
	{"BPF_CGROUP_EGRESS", "a program of a cgroup: bpftool cgroup tree"},
	{"PKT_TOO_BIG", "larger than the MTU of the way out: ip link, path MTU discovery"},
	{"FRAG_", "fragments are missing: is one of them lost on the way?"},
	{"DEV_READY", "the interface is not up"},
	{"NOMEM", "the kernel has no memory: free -h, vm.min_free_kbytes"},
	{"NOT_SPECIFIED", "the kernel gives no reason: look up the function in its sources"},
}

// adviceFor says what to do about losses for this reason; "" if nothing is known.
func adviceFor(reason string) string {
	for _, a := range advice {
		if strings.HasPrefix(reason, a.reason) {
			return a.text
		}
	}
	return ""
}
