package sflow

import "strings"

// A Reason is the reason for which a packet was discarded.
type Reason uint32

// Reasons from sFlow.org's list.
const (
	reasonUnknown Reason = 256
	reasonXDP     Reason = 367 // by an XDP program
)

// A linuxReason is the Linux kernel's reason for dropping a packet. Some reasons have another
// meaning in some functions; function "" is all other functions.
type linuxReason struct{ name, function string }

// equivalents map the kernel's reasons to the numbers and names of sFlow.org's list. A reason of
// the kernel that covers more cases than any one of the list has no row: it is sent as
// reasonUnknown.
var equivalents = []struct {
	reason Reason
	name   string // in the list; datagrams have only the number
	linux  string // the kernel's reasons, separated by spaces
}{
	{0, "net_unreachable", "IP_INNOROUTES"},
	{1, "host_unreachable", "IP_INADDRERRORS"},
	{2, "protocol_unreachable", "IP_NOPROTO"},
	{3, "port_unreachable", "NO_SOCKET"},
	{6, "dst_net_unknown", "IP_OUTNOROUTES"},
	{258, "acl", "NETFILTER_DROP"},
	{259, "no_buffer_space", "SOCKET_RCVBUFF SOCKET_BACKLOG PROTO_MEM FULL_RING NOMEM QDISC_OVERLIMIT FQ_BAND_LIMIT FQ_FLOW_LIMIT"},
	{260, "red", "QDISC_CONGESTED DUALPI2_STEP_DROP"},
	{261, "traffic_shaping", "QDISC_DROP"},
	{262, "pkt_too_big", "PKT_TOO_BIG"},
	{266, "ingress_spanning_tree_filter", "BRIDGE_INGRESS_STP_STATE"},
	{271, "uc_dip_over_mc_dmac", "UNICAST_IN_L2_MULTICAST"},
	{275, "ip_header_corrupted", "IP_CSUM IP_INHDR"},
	{279, "unresolved_neigh", "NEIGH_CREATEFAIL NEIGH_FAILED NEIGH_QUEUEFULL NEIGH_DEAD NEIGH_HH_FILLFAIL"},
	{282, "decap_error", "IP_TUNNEL_ECN"},
	{294, "dmac_is_reserved", "MAC_IEEE_MAC_CONTROL"},
	{307, "vxlan_parsing", "VXLAN_INVALID_HDR"},
	{316, "udp_parsing", "UDP_CSUM"},
	{317, "tcp_parsing", "TCP_CSUM"},
	{324, "pkt_too_small", "PKT_TOO_SMALL HDR_TRUNC"},
	{325, "unhandled_proto", "UNHANDLED_PROTO"},
	{326, "ipv6disabled", "IPV6DISABLED"},
	{327, "invalid_proto", "INVALID_PROTO"},
	{329, "skb_csum", "SKB_CSUM"},
	{330, "skb_ucopy_fault", "SKB_UCOPY_FAULT"},
	{331, "dev_ready", "DEV_READY"},
	{332, "dev_hdr", "DEV_HDR"},
	{333, "dup_frag", "DUP_FRAG"},
	{334, "skb_gso_seg", "SKB_GSO_SEG"},
	{335, "reverse_path_forwarding", "IP_RPFILTER"},
	{336, "icmp_parsing", "ICMP_CSUM"},
	{337, "tcp_md5notfound", "TCP_MD5NOTFOUND"},
	{338, "tcp_md5unexpected", "TCP_MD5UNEXPECTED"},
	{339, "tcp_md5failure", "TCP_MD5FAILURE"},
	{340, "tcp_flags", "TCP_FLAGS"},
	{341, "tcp_zerowindow", "TCP_ZEROWINDOW"},
	{342, "tcp_old_data", "TCP_OLD_DATA"},
	{343, "tcp_overwindow", "TCP_OVERWINDOW"},
	{344, "tcp_ofomerge", "TCP_OFOMERGE"},
	{345, "tcp_rfc7323_paws", "TCP_RFC7323_PAWS TCP_RFC7323_PAWS_ACK TCP_RFC7323_TW_PAWS"},
	{346, "tcp_invalid_sequence", "TCP_INVALID_SEQUENCE TCP_OLD_SEQUENCE TCP_INVALID_END_SEQUENCE"},
	{347, "tcp_reset", "TCP_RESET"},
	{348, "tcp_invalid_syn", "TCP_INVALID_SYN"},
	{349, "tcp_close", "TCP_CLOSE"},
	{350, "tcp_fastopen", "TCP_FASTOPEN"},
	{351, "tcp_old_ack", "TCP_OLD_ACK"},
	{352, "tcp_too_old_ack", "TCP_TOO_OLD_ACK"},
	{353, "tcp_ack_unsent_data", "TCP_ACK_UNSENT_DATA"},
	{354, "tcp_ofo_queue_prune", "TCP_OFO_QUEUE_PRUNE"},
	{355, "tcp_ofo_drop", "TCP_OFO_DROP"},
	{356, "tcp_minttl", "TCP_MINTTL"},
	{357, "ipv6_bad_exthdr", "IPV6_BAD_EXTHDR"},
	{358, "ipv6_ndisc_frag", "IPV6_NDISC_FRAG"},
	{359, "ipv6_ndisc_hop_limit", "IPV6_NDISC_HOP_LIMIT"},
	{360, "ipv6_ndisc_bad_code", "IPV6_NDISC_BAD_CODE"},
	{361, "ipv6_ndisc_bad_options", "IPV6_NDISC_BAD_OPTIONS"},
	{362, "ipv6_ndisc_ns_otherhost", "IPV6_NDISC_NS_OTHERHOST"},
	{363, "tap_filter", "TAP_FILTER"},
	{364, "tap_txfilter", "TAP_TXFILTER"},
	{365, "tc_ingress", "TC_INGRESS"},
	{366, "tc_egress", "TC_EGRESS"},
	{reasonXDP, "xdp", "XDP"},
	{368, "cpu_backlog", "CPU_BACKLOG"},
	{369, "bpf_cgroup_egress", "BPF_CGROUP_EGRESS"},
	{370, "xfrm_policy", "XFRM_POLICY"},
	{371, "socket_filter", "SOCKET_FILTER"},
}

// ttlExceeded is the meaning of IP_INHDR in the functions that forward packets.
const ttlExceeded Reason = 257

var reasons = func() map[linuxReason]Reason {
	all := map[linuxReason]Reason{
		{"IP_INHDR", "ip_forward"}:  ttlExceeded,
		{"IP_INHDR", "ip6_forward"}: ttlExceeded,
	}
	for _, e := range equivalents {
		for _, name := range strings.Fields(e.linux) {
			all[linuxReason{name: name}] = e.reason
		}
	}
	return all
}()

// reasonOf returns the reason of sFlow.org's list for a reason of the Linux kernel, such as
// NO_SOCKET, in one of its functions, or reasonUnknown if the list has no equivalent.
func reasonOf(linux, function string) Reason {
	if r, ok := reasons[linuxReason{linux, function}]; ok {
		return r
	}
	if r, ok := reasons[linuxReason{name: linux}]; ok {
		return r
	}
	return reasonUnknown
}
