package drops

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/lost"
)

// A Remainder has the differences between the kernel's own counters of a network namespace and the
// losses that a Meter counts. Its lists are never nil.
type Remainder struct {
	// Unexplained has the counters that rose by more than the losses explain, with the excess.
	Unexplained []CounterRise `json:"unexplained"`

	// Unconfirmed has the losses that should have raised a counter, although no such counter rose.
	Unconfirmed []LossPackets `json:"unconfirmed"`

	// Unchecked has the losses that raise no counter of the kernel.
	Unchecked []LossPackets `json:"unchecked"`
}

// A CounterRise is the rise of a counter, or of several that are compared together.
type CounterRise struct {
	Counter string `json:"counter"` // "TcpExtListenDrops", "IpInHdrErrors+Ip6InHdrErrors", "eth0 tx_dropped"
	Packets uint64 `json:"packets"`
}

// LossPackets are the packets that were lost for one cause.
type LossPackets struct {
	Loss
	Packets uint64 `json:"packets"`
}

// A knownLoss is a loss that is compared with counters. It is sure if it is a real loss, and
// happened in the namespace of the counters: then it must have raised one. Other losses may explain
// why a counter rose.
type knownLoss struct {
	Loss
	isSure bool
}

// isWithoutDevice reports whether the kernel has neither the device nor the namespace of the
// packets. Of other losses "" is the one interface that is counted.
func (l knownLoss) isWithoutDevice() bool {
	isOfStack := l.Stage == Stack || l.Stage == Socket
	return l.Device == "" && !l.isSure && isOfStack
}

// An account relates causes of losses to the counters that they raise. A cause is a pattern of
// path.Match for REASON@function.
type account struct {
	counters  []string // each packet raises one of them
	within    []string // counters of other losses, whose packets `counters` also count
	always    []string // causes whose packets always raise one
	sometimes []string // causes whose packets raise one in some places of the kernel, or in some cases
	harmless  bool     // the counters also rise without a loss
}

func words(s string) []string { return strings.Fields(s) }

// accounts are those of Linux 6.1 to 6.18: net/ipv4, net/ipv6, net/netfilter and net/xfrm. Counters
// that are missing here count no losses, or only losses that a counter here counts, too.
var accounts = []account{
	{counters: words("UdpNoPorts Udp6NoPorts UdpLiteNoPorts UdpLite6NoPorts"), always: words("NO_SOCKET@*udp*")},
	{
		counters:  words("UdpInErrors Udp6InErrors UdpLiteInErrors UdpLite6InErrors"),
		always:    words("SOCKET_RCVBUFF@*udp* PROTO_MEM@*udp* SOCKET_FILTER@*udp* UDP_CSUM@*udp* PKT_TOO_SMALL@*udp*"),
		sometimes: words("UDP_CSUM@* NO_SOCKET@*udp*6*rcv* NOT_SPECIFIED@*udp*rcv* NOT_SPECIFIED@*udp*recvmsg NOT_SPECIFIED@*first_packet_length XFRM_POLICY@*udp*"),
	},
	{counters: words("TcpInErrs"), always: words("TCP_CSUM@*"), sometimes: words("TCP_INVALID_SYN@* PKT_TOO_SMALL@tcp* NOT_SPECIFIED@tcp*")},
	{counters: words("TcpExtTCPBacklogDrop"), always: words("SOCKET_BACKLOG@*tcp*"), sometimes: words("SOCKET_BACKLOG@*")},
	{counters: words("TcpExtTCPMinTTLDrop"), always: words("TCP_MINTTL@*")},
	{counters: words("TcpExtTCPZeroWindowDrop"), always: words("TCP_ZEROWINDOW@*")},
	{counters: words("TcpExtTCPOFODrop TcpExtTCPRcvQDrop"), sometimes: words("PROTO_MEM@*tcp* NOT_SPECIFIED@*tcp*")},
	{counters: words("TcpExtPFMemallocDrop"), sometimes: words("PFMEMALLOC@* NOMEM@* NOT_SPECIFIED@*")},
	{counters: words("TcpExtTSEcrRejected"), sometimes: words("TCP_RFC7323_TSECR@*")},
	// These count attempts, or segments that came twice.
	{counters: words("TcpExtOfoPruned TcpExtRcvPruned"), sometimes: words("TCP_OFO*@* PROTO_MEM@*tcp*"), harmless: true},
	{counters: words("TcpExtPAWSEstab TcpExtPAWSOldAck"), sometimes: words("TCP_RFC7323_PAWS*@*"), harmless: true},
	{counters: words("TcpExtDelayedACKLost"), sometimes: words("TCP_OLD_DATA@*"), harmless: true},
	{
		counters:  words("TcpExtTCPMD5NotFound TcpExtTCPMD5Unexpected TcpExtTCPMD5Failure TcpExtTCPAORequired TcpExtTCPAOBad TcpExtTCPAOKeyNotFound"),
		sometimes: words("TCP_MD5*@* TCP_AO*@*"),
	},
	{
		counters:  words("TcpExtListenDrops"), // includes the two of a full queue
		always:    words(acceptQueueFull + "@* " + requestQueueFull + "@* " + notAccepted + "@*"),
		sometimes: words("NO_SOCKET@cookie_v?_check NOT_SPECIFIED@tcp_v?_*rcv"),
	},
	{counters: words("TcpExtIPReversePathFilter"), always: words("IP_RPFILTER@*")},
	{
		counters:  words("IpInHdrErrors Ip6InHdrErrors"),
		always:    words("IP_INHDR@ip* IP_CSUM@*"),
		sometimes: words("IP_INHDR@* NOT_SPECIFIED@ip* UNHANDLED_PROTO@ip* IPV6_*@*"),
	},
	{counters: words("IpExtInTruncatedPkts Ip6InTruncatedPkts"), always: words("PKT_TOO_SMALL@ip*rcv*")},
	{counters: words("IpInAddrErrors Ip6InAddrErrors"), always: words("IP_INADDRERRORS@*"), sometimes: words("NOT_SPECIFIED@ip*")},
	{counters: words("IpExtInNoRoutes Ip6InNoRoutes"), always: words("IP_INNOROUTES@*"), sometimes: words("NOT_SPECIFIED@ip*")},
	{counters: words("IpInUnknownProtos Ip6InUnknownProtos"), always: words("IP_NOPROTO@*"), sometimes: words("NOT_SPECIFIED@ip*")},
	{
		counters:  words("IpInDiscards Ip6InDiscards"),
		sometimes: words("IPV6DISABLED@* XFRM_POLICY@* NOMEM@* NOT_SPECIFIED@ip* NOT_SPECIFIED@*raw* SOCKET_RCVBUFF@*raw* TCP_*@* SOCKET_*@*"),
	},
	// A sender without a route, or without room in its socket, gets an error instead of a packet.
	{counters: words("IpOutNoRoutes Ip6OutNoRoutes"), sometimes: words("IP_OUTNOROUTES@*"), harmless: true},
	{
		counters:  words("IpOutDiscards Ip6OutDiscards"),
		within:    words("UdpSndbufErrors Udp6SndbufErrors UdpLiteSndbufErrors UdpLite6SndbufErrors"),
		sometimes: words("NETFILTER_DROP@* QDISC_*@* FQ_*@* CAKE_*@* TC_EGRESS@* NEIGH_*@* IP_OUTNOROUTES@* BPF_CGROUP_EGRESS@* PKT_TOO_BIG@* NOMEM@* DEV_READY@* NOT_SPECIFIED@*"),
	},
	{counters: words("IpFragFails Ip6FragFails"), always: words("PKT_TOO_BIG@ip*"), sometimes: words("NOT_SPECIFIED@ip* NOT_SPECIFIED@*frag* NOT_SPECIFIED@br_*")},
	{counters: words("IpReasmFails Ip6ReasmFails"), sometimes: words("FRAG_*@* DUP_FRAG@* NOT_SPECIFIED@*frag* NOT_SPECIFIED@ip_* NOT_SPECIFIED@skb_release_data")},
	{counters: words("IcmpInErrors Icmp6InErrors"), sometimes: words("ICMP_CSUM@* INVALID_PROTO@* NOT_SPECIFIED@icmp*"), harmless: true},
	{
		counters: words(`XfrmInError XfrmInBufferError XfrmInHdrError XfrmInNoStates XfrmInStateProtoError XfrmInStateModeError
			XfrmInStateSeqError XfrmInStateExpired XfrmInStateMismatch XfrmInStateInvalid XfrmInTmplMismatch XfrmInNoPols
			XfrmInPolBlock XfrmInPolError XfrmFwdHdrError XfrmInStateDirError XfrmInIptfsError`),
		sometimes: words("XFRM_*@* *@xfrm* *@esp* *@ah* *@ip* *@tcp* *@*udp* *@raw*"),
	},
	{counters: words("SctpChecksumErrors SctpInPktDiscards"), sometimes: words("*@sctp*")},
	{counters: []string{"conntrack drop"}, sometimes: words("NETFILTER_DROP@*")},
}

// accountsOfDevice are compared for each interface, most of them with all losses there, because
// drivers and the stack use these counters for many causes.
var accountsOfDevice = []account{
	{counters: words("rx_dropped"), sometimes: words("*@*")},
	{counters: words("rx_errors"), sometimes: words("*@*")},
	{counters: words("rx_missed"), sometimes: words("*@*")},
	{counters: words("tx_dropped"), sometimes: words("*@*")},
	{counters: words("tx_errors"), sometimes: words("*@*")},
	{counters: words("qdisc_drops"), sometimes: words("QDISC_*@* FQ_*@* CAKE_*@* DUALPI2_*@* CODEL_*@* RED_*@* TC_*@* NOT_SPECIFIED@* reason*@*")},
}

// explains reports whether one of the causes matches a loss. If the kernel hides the names of
// functions, only the reason must match.
func explains(causes []string, l Loss) bool {
	return slices.ContainsFunc(causes, func(cause string) bool {
		reason, function, _ := strings.Cut(cause, "@")
		return matches(reason, l.Reason) && (strings.HasPrefix(l.Where, "0x") || matches(function, l.Where))
	})
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok || pattern == "*"
}

// A comparison collects the differences between counters and losses. The counters are read before
// and after the losses: least has the rises while the losses were counted, and most those of a
// slightly longer time.
type comparison struct {
	least, most lost.Counters
	losses      map[knownLoss]uint64 // packets

	unexplained []CounterRise
	confirmed   map[Loss]bool // a counter that the loss can raise has risen
	due         map[Loss]bool // a counter must have risen, because the loss always raises one
}

// compare returns the differences: see comparison.
func compare(least, most lost.Counters, losses map[knownLoss]uint64) Remainder {
	c := comparison{least, most, losses, []CounterRise{}, make(map[Loss]bool), make(map[Loss]bool)}
	for _, a := range accounts {
		c.add(a, "")
	}
	for _, device := range devicesOf(most) {
		for _, a := range accountsOfDevice {
			c.add(a, device)
		}
	}
	r := Remainder{Unexplained: c.unexplained, Unconfirmed: []LossPackets{}, Unchecked: []LossPackets{}}
	for l, packets := range losses {
		switch {
		case !l.isSure || c.confirmed[l.Loss]:
		case c.due[l.Loss]:
			r.Unconfirmed = append(r.Unconfirmed, LossPackets{l.Loss, packets})
		default:
			r.Unchecked = append(r.Unchecked, LossPackets{l.Loss, packets})
		}
	}
	for _, list := range [][]LossPackets{r.Unconfirmed, r.Unchecked} {
		slices.SortFunc(list, func(a, b LossPackets) int {
			return cmp.Or(cmp.Compare(b.Packets, a.Packets), compareCauses(a.Loss, b.Loss))
		})
	}
	return r
}

// add compares the counters of an account with all losses that raise them; device is "" for those
// of the namespace.
func (c *comparison) add(a account, device string) {
	explained, least := uint64(0), sumOfCounters(c.least, a.counters, device)
	hasRisen := sumOfCounters(c.most, a.counters, device) > 0
	for l, packets := range c.losses {
		mayBeHere := device == "" || l.Device == device || l.Device == "" && !l.isWithoutDevice()
		always := explains(a.always, l.Loss)
		mayRaise := always || explains(a.sometimes, l.Loss)
		if !mayBeHere || !mayRaise {
			continue
		}
		explained += packets
		c.confirmed[l.Loss] = c.confirmed[l.Loss] || hasRisen
		c.due[l.Loss] = c.due[l.Loss] || always
	}
	if n := minus(least, explained+sumOfCounters(c.most, a.within, device)); n > 0 && !a.harmless {
		c.unexplained = append(c.unexplained, CounterRise{namesOfCounters(c.least, a.counters, device), n})
	}
}

// nameOfCounter returns the name in lost.Counters of an account's counter; device is "" for one of
// the namespace.
func nameOfCounter(name, device string) string { return strings.TrimPrefix(device+" "+name, " ") }

func sumOfCounters(rose lost.Counters, names []string, device string) (sum uint64) {
	for _, name := range names {
		sum += rose[nameOfCounter(name, device)]
	}
	return sum
}

// namesOfCounters returns the names of the counters that rose: "IpInHdrErrors+Ip6InHdrErrors".
func namesOfCounters(rose lost.Counters, names []string, device string) string {
	var all []string
	for _, name := range names {
		if name = nameOfCounter(name, device); rose[name] > 0 {
			all = append(all, name)
		}
	}
	return strings.Join(all, "+")
}

// devicesOf returns the interfaces whose counters rose.
func devicesOf(rose lost.Counters) []string {
	devices := make(map[string]bool)
	for name := range rose {
		if device, _, ok := strings.Cut(name, " "); ok && device != "conntrack" {
			devices[device] = true
		}
	}
	return slices.Sorted(maps.Keys(devices))
}
