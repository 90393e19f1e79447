package drops

import "slices"

// genericHook is where the kernel throws a packet away that an XDP program in generic mode did not
// pass.
const genericHook = "do_xdp_generic"

// atHook are the functions that throw a packet's buffer away after an XDP program, or a failed
// redirect, has ended the packet: that is counted at the hook.
var atHook = []string{genericHook, "netif_receive_generic_xdp", "veth_xdp_rcv_skb", "veth_xdp_rcv_one", "veth_poll", "veth_xdp_rcv"}

// isAtHook tells whether a packet was already lost at the XDP hook.
func isAtHook(c Cause) bool {
	return (c.Reason == "XDP" || c.Reason == "NOT_SPECIFIED") && slices.Contains(atHook, c.Location)
}

// A harmless cause is one that the kernel reports like a loss, though nobody misses the packet.
type harmless struct {
	reason, location string // "" = any
}

// harmlessCauses were found on Linux 6.1, 6.12 and 6.18.
var harmlessCauses = []harmless{
	{"OTHERHOST", ""},                     // for another host: promiscuous mode, or a switch that floods
	{"NOT_SPECIFIED", "skb_release_data"}, // 6.1: the fragments of a datagram that was delivered
	{"NOT_SPECIFIED", "ip6_mc_input"},     // multicast that nobody here has joined
	{"PACKET_SOCK_ERROR", ""},             // the copy for a packet socket that is full: a capture's
	{"NOT_SPECIFIED", "packet_rcv"},       // the same before Linux 6.11
	{"NOT_SPECIFIED", "tpacket_rcv"},
	{"QUEUE_PURGE", ""}, // of a queue that is no more, such as that of a closed socket
}

// isHarmless tells whether nobody misses the packets.
func isHarmless(c Cause) bool {
	return slices.ContainsFunc(harmlessCauses, func(h harmless) bool {
		return (h.reason == "" || h.reason == c.Reason) && (h.location == "" || h.location == c.Location)
	})
}
