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
// mode. If the compiler has turned its last call into a jump, the kernel reports the function that
// called it: [GenericHook] for the verdict tx, and another one for a redirect.
const GenericTx = "generic_xdp_tx"

// atHook are the functions that free a packet's buffer after an XDP program, or a failed redirect,
// has ended the packet: that loss is counted at the hook.
var atHook = []string{GenericHook, "netif_receive_generic_xdp", "veth_xdp_rcv_skb", "veth_xdp_rcv_one", "veth_poll", "veth_xdp_rcv"}

// IsAtHook reports whether a packet that was dropped for a reason in a function had already been
// lost at the XDP hook.
func IsAtHook(reason, function string) bool {
	return (reason == "XDP" || reason == "NOT_SPECIFIED") && slices.Contains(atHook, function)
}

// A harmless cause is reported like a loss by the kernel, although no receiver lacks the packet.
type harmless struct {
	reason   string
	function string // "" = any
}

// harmlessCauses were found on Linux 6.1, 6.12 and 6.18.
var harmlessCauses = []harmless{
	{"OTHERHOST", ""},                     // for another host: promiscuous mode, or a switch that floods
	{"NOT_SPECIFIED", "skb_release_data"}, // 6.1: the fragments of a datagram that was delivered
	{"NOT_SPECIFIED", "ip6_mc_input"},     // multicast whose group no process here has joined
	{"PACKET_SOCK_ERROR", ""},             // the copy for a packet socket that is full: a capture's
	{"NOT_SPECIFIED", "packet_rcv"},       // the same before Linux 6.11
	{"NOT_SPECIFIED", "tpacket_rcv"},
	{"QUEUE_PURGE", ""},                  // of a removed queue, such as a closed socket's
	{"NOT_SPECIFIED", "skb_queue_purge"}, // the same on 6.1
}

// IsHarmless reports whether no receiver lacks the packets that the kernel drops for a reason in a
// function.
func IsHarmless(reason, function string) bool {
	return slices.ContainsFunc(harmlessCauses, func(h harmless) bool {
		return h.reason == reason && (h.function == "" || h.function == function)
	})
}

// A NoLoss describes packets that are no losses of the stack: packets that are dropped for a reason
// at an address from From up to, but not including, To. Its memory layout is that of struct no_loss
// in bpf/include/no_loss.h.
type NoLoss struct {
	From, To uint64
	Reason   Reason
	_        uint32
}

// MaxNoLosses is the maximum number of NoLosses in a program.
const MaxNoLosses = 48

// Constants returns the values of the constants in bpf/include/no_loss.h, by their names: NoLosses.
func Constants(names Reasons, symbols *Symbols) (map[string]any, error) {
	causes, err := NoLosses(names, symbols)
	if err != nil {
		return nil, err
	}
	var list [MaxNoLosses]NoLoss
	if n := copy(list[:], causes); n < len(causes) {
		return nil, fmt.Errorf("%d causes that are no losses: must be at most %d", len(causes), n)
	}
	return map[string]any{"no_losses": list, "no_loss_count": uint32(len(causes))}, nil
}

// NoLosses returns all causes for which IsHarmless or IsAtHook is true, with the numbers of the
// running kernel. If the kernel hides the addresses of functions, they include only causes that do
// not depend on the function.
func NoLosses(names Reasons, symbols *Symbols) (all []NoLoss, err error) {
	causes := slices.Clone(harmlessCauses)
	for _, function := range atHook {
		causes = append(causes, harmless{"XDP", function}, harmless{"NOT_SPECIFIED", function})
	}
	functions := make(map[string][]Range)
	for _, c := range causes {
		functions[c.function] = nil
	}
	delete(functions, "")
	if err := symbols.ranges(functions); err != nil {
		return nil, err
	}
	functions[""] = []Range{{0, ^uint64(0)}}
	for _, c := range causes {
		for _, reason := range slices.Sorted(maps.Keys(names)) {
			if names[reason] != c.reason {
				continue
			}
			for _, r := range functions[c.function] {
				all = append(all, NoLoss{From: r.From, To: r.To, Reason: reason})
			}
		}
	}
	return all, nil
}
