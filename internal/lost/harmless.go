package lost

import (
	"fmt"
	"maps"
	"slices"
)

// GenericHook is the function in which the kernel drops a packet that an XDP program in generic
// mode did not pass.
const GenericHook = "do_xdp_generic"

// GenericTx is the function in which the kernel drops a packet that it could not send in generic
// mode. If the compiler has turned its last call into a jump, the kernel reports its caller
// instead: [GenericHook] for the verdict tx, and another function for a redirect.
const GenericTx = "generic_xdp_tx"

// atHook are the functions that free a packet's buffer after an XDP program has dropped the packet,
// or its redirect has failed: that loss is counted at the hook.
var atHook = []string{GenericHook, "netif_receive_generic_xdp", "veth_xdp_rcv_skb", "veth_xdp_rcv_one", "veth_poll", "veth_xdp_rcv"}

// IsAtHook reports whether a packet that was dropped for a reason in a function had already been
// lost at the XDP hook.
func IsAtHook(reason, function string) bool {
	return (reason == "XDP" || reason == "NOT_SPECIFIED") && slices.Contains(atHook, function)
}

// A Kind classifies lost packets by their addresses and direction: enum lost_kind in
// bpf/include/lost.h. 0 = none of these.
type Kind uint32

const (
	ToGroup Kind = 1 // sent to a multicast or broadcast address
	ToUs    Kind = 2 // sent to the interface's address, but dropped as another host's
	Sent    Kind = 4 // sent by this host, on its way to a device
)

// The packets of a harmless cause are reported by the kernel like losses, although no receiver
// lacks them.
type harmless struct {
	reason   string
	function string // "" = any
	kind     Kind   // 0 = any, except ToUs
}

// harmlessCauses were found on Linux 6.1, 6.12 and 6.18.
var harmlessCauses = []harmless{
	{"OTHERHOST", "", 0},                     // for another host: promiscuous mode, or a switch that floods
	{"NOT_SPECIFIED", "skb_release_data", 0}, // 6.1: the fragments of a datagram that was delivered
	{"NOT_SPECIFIED", "icmpv6_rcv", 0},       // 6.1: a message that was understood
	{"NOT_SPECIFIED", "ip6_mc_input", 0},     // multicast whose group no process here has joined
	{"PACKET_SOCK_ERROR", "", 0},             // the copy for a packet socket that is full: a capture's
	{"NOT_SPECIFIED", "packet_rcv", 0},       // the same before Linux 6.11
	{"NOT_SPECIFIED", "tpacket_rcv", 0},
	{"QUEUE_PURGE", "", 0},                      // of a removed queue, such as a closed socket's
	{"NOT_SPECIFIED", "skb_queue_purge", 0},     // the same on 6.1
	{"NOT_SPECIFIED", "udp_destruct_common", 0}, // the same, of UDP
	{"NOT_SPECIFIED", "skb_rbtree_purge", 0},    // the same, of TCP: its segments out of order
	{"NOT_SPECIFIED", "tcp_v4_rcv", 0},          // the end of a connection that this host has closed before
	{"NOT_SPECIFIED", "tcp_v6_rcv", 0},
	{"NOT_SPECIFIED", "bpf_prog_test_run_skb", 0},  // a program's trial
	{"NOT_SPECIFIED", "tbf_enqueue", 0},            // the original of packets into which tbf has split it
	{"NOT_SPECIFIED", "vmxnet3_tq_tx_complete", 0}, // sent: the driver frees it like a lost one
	{"NOT_SPECIFIED", "inet_rtm_getroute", 0},      // the dummy packet of `ip route get ADDRESS iif NIC`, also of ours
	{"NOT_SPECIFIED", "inet6_rtm_getroute", 0},
	{"NO_SOCKET", "ping_rcv", 0}, // an answer that ping reads from a raw socket
	{"NO_SOCKET", "icmp_rcv", 0},

	// Multicast and broadcast without a listener on this host.
	{"UNHANDLED_PROTO", "", ToGroup}, // LLDP, LACP, pause frames
	{"NOT_SPECIFIED", "stp_pdu_rcv", ToGroup},
	{"NOT_SPECIFIED", "snap_rcv", ToGroup}, // CDP
	{"NOT_SPECIFIED", "llc_rcv", ToGroup},  // the same on 6.12
	{"NOT_SPECIFIED", "ip_rcv_finish_core", ToGroup},
	{"NOT_SPECIFIED", "__udp4_lib_rcv", ToGroup},
	{"NOT_SPECIFIED", "__udp4_lib_mcast_deliver", ToGroup},
	{"NOT_SPECIFIED", "__udp6_lib_rcv", ToGroup},
	{"NOT_SPECIFIED", "__udp6_lib_mcast_deliver", ToGroup},
	{"IPV6DISABLED", "", ToGroup},              // of hosts with IPv6, where this one has none
	{"NOT_SPECIFIED", "ip6_rcv_core", ToGroup}, // the same, at an MTU that is too small for IPv6
}

// duplicates are TCP's reasons for packets whose data the socket already has.
var duplicates = []string{"TCP_OLD_DATA", "TCP_OLD_SEQUENCE", "TCP_OLD_ACK", "TCP_OFOMERGE"}

// IsDuplicate reports whether the packets that are dropped for a reason only had data that their
// receiver already had.
func IsDuplicate(reason string) bool { return slices.Contains(duplicates, reason) }

// IsHarmless reports whether no receiver lacks the packets of a kind that the kernel drops for a
// reason in a function.
func IsHarmless(reason, function string, kind Kind) bool {
	return kind != ToUs && slices.ContainsFunc(harmlessCauses, func(h harmless) bool {
		return h.reason == reason && (h.function == "" || h.function == function) && (h.kind == 0 || h.kind == kind)
	})
}

// A NoLoss describes packets that are no losses of the stack: packets of a kind, 0 for any, that
// are dropped for a reason at an address from From up to, but not including, To. Its memory layout
// is that of struct no_loss in bpf/include/no_loss.h.
type NoLoss struct {
	From, To uint64
	Reason   Reason
	Kind     Kind
}

// MaxNoLosses is the maximum number of NoLosses in a program.
const MaxNoLosses = 80

// Constants returns the values of the constants in bpf/include/no_loss.h, which are NoLosses, by
// their names.
func Constants(names Reasons, symbols *Symbols, withHook bool) (map[string]any, error) {
	causes, err := NoLosses(names, symbols, withHook)
	if err != nil {
		return nil, err
	}
	var list [MaxNoLosses]NoLoss
	if n := copy(list[:], causes); n < len(causes) {
		return nil, fmt.Errorf("%d causes that are no losses: must be at most %d", len(causes), n)
	}
	return map[string]any{"no_losses": list, "no_loss_count": uint32(len(causes))}, nil
}

// NoLosses returns all causes for which IsHarmless or IsDuplicate is true and, if withHook is set,
// those for which IsAtHook is, with the numbers of the running kernel. If the kernel hides the
// addresses of functions, causes that depend on the function are omitted.
func NoLosses(names Reasons, symbols *Symbols, withHook bool) (all []NoLoss, err error) {
	causes := slices.Clone(harmlessCauses)
	if withHook {
		for _, function := range atHook {
			causes = append(causes, harmless{reason: "XDP", function: function}, harmless{reason: "NOT_SPECIFIED", function: function})
		}
	}
	for _, reason := range duplicates {
		causes = append(causes, harmless{reason: reason})
	}
	functions := make(map[string][]Range)
	for _, c := range causes {
		functions[c.function] = nil
	}
	delete(functions, "")
	if err := symbols.findRanges(functions); err != nil {
		return nil, err
	}
	functions[""] = []Range{{0, ^uint64(0)}}
	for _, c := range causes {
		for _, reason := range slices.Sorted(maps.Keys(names)) {
			if names[reason] != c.reason {
				continue
			}
			for _, r := range functions[c.function] {
				all = append(all, NoLoss{From: r.From, To: r.To, Reason: reason, Kind: c.kind})
			}
		}
	}
	return all, nil
}
