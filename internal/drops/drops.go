// Package drops counts the packets that are lost between a network card and a socket, or on the way
// out, by the place and the reason.
//
// A packet is counted once, at the stage that lost it, although the kernel and drivers often report
// one loss in two counters.
package drops

import (
	"strings"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A Stage is a part of a packet's way.
type Stage string

const (
	Card   Stage = "card"   // the card and its driver, before the XDP hook
	XDP    Stage = "XDP"    // the XDP program, and what it redirects to
	Stack  Stage = "stack"  // from the XDP hook to the sockets
	Socket Stage = "socket" // the socket that the packet was for
	Egress Stage = "egress" // the queues on the way out
)

// Stages are all stages, in the order of a packet's way.
var Stages = []Stage{Card, XDP, Stack, Socket, Egress}

// A Loss is a cause of loss. Each has its own counter.
type Loss struct {
	Stage  Stage  `json:"stage"`
	Reason string `json:"reason"`           // "NO_SOCKET", "drop", "redirect: network is down", "rx_missed"
	Where  string `json:"where,omitempty"`  // the kernel's function, program, map, interface or listener; "" = unknown
	Netns  uint32 `json:"netns,omitempty"`  // inode of Device's network namespace; 0 = ours, or only one interface is counted
	Device string `json:"device,omitempty"` // interface; "" = the only counted one, "?" = unknown, "gone" = a removed one
}

// Counts is the result of Meter.Read, cumulative since Open. The caller owns it.
type Counts struct {
	Losses map[Loss]Tally

	// Harmless has packets that the kernel reports like losses although no receiver lacks them:
	// copies of multicast that no process has joined, packets for other hosts, and the like.
	Harmless map[Loss]Tally

	// Duplicates has segments of TCP whose data the receiver already had.
	Duplicates map[Loss]Tally

	// Unclear has losses that may belong to another interface than the counted one: the kernel has
	// only the index of the receiving interface, and an interface of another network namespace may
	// have the same index.
	Unclear map[Loss]Tally

	// Unfiltered has, if there is a filter, the losses to which it cannot be applied, because no
	// program sees the packets: losses of the card and most failures at the XDP hook. They include
	// packets that do not match. Without a filter they are in Losses.
	Unfiltered map[Loss]Tally

	// Listeners has the packets that listening sockets of TCP refused, if only one interface is
	// counted: they may have come in on any interface of the network namespace. Otherwise they are
	// in Losses.
	Listeners map[Loss]Tally

	// Evidence names the culprits of a loss. Losses of other network namespaces have no evidence,
	// except at XDP.
	Evidence map[Loss][]Evidence

	Check       *Remainder   // nil without Options.Check
	Retransmits *Retransmits // nil without Options.Retransmits
	Flows       FlowCounts   // see TopFlows; zero without Options.Flows
	Way         *Way         // nil without a filter
	Softnet     Softnet
	Conntrack   Conntrack

	// Untraced is why the interface's XDP program is not traced; nil = it is traced, or no program
	// runs. Freed means that the kernel frees the packets that it drops as buffers of the stack, so
	// that a filter can be applied to them all the same.
	Untraced error
	Freed    bool

	Missed uint64 // losses that are not counted: too many causes, or the program was interrupted by another loss
}

func newCounts() Counts {
	return Counts{
		Losses: make(map[Loss]Tally), Harmless: make(map[Loss]Tally), Duplicates: make(map[Loss]Tally), Unclear: make(map[Loss]Tally),
		Unfiltered: make(map[Loss]Tally), Listeners: make(map[Loss]Tally), Evidence: make(map[Loss][]Evidence),
	}
}

// A Tally is a number of lost packets and their bytes. A buffer of several segments counts as so
// many packets. Bytes do not include headers that were already removed; 0 = unknown.
type Tally = meter.Tally

// addTo adds packets to a loss; no packets create no entry.
func addTo(to map[Loss]Tally, l Loss, more Tally) {
	more.Add(to[l])
	if more != (Tally{}) {
		to[l] = more
	}
}

// stageOf returns the stage at which the stack lost a packet, by the reason and the kind.
func stageOf(reason string, kind lost.Kind) Stage {
	if kind == lost.Sent {
		return Egress
	}
	for _, s := range stagesOfReasons {
		if strings.HasPrefix(reason, s.prefix) {
			return s.stage
		}
	}
	return Stack
}

// StageOf returns the stage at which the stack lost a packet, by the reason alone, for packets in
// capture files.
func StageOf(reason string) Stage { return stageOf(reason, unknownKind) }

// unknownKind is the kind of packets of which only the reason is known.
const unknownKind lost.Kind = 0

// stagesOfReasons are the stages of the reasons with a prefix. All other reasons are of the stack.
var stagesOfReasons = []struct {
	prefix string
	stage  Stage
}{
	{"SOCKET_", Socket}, {"PROTO_MEM", Socket}, {"TCP_", Socket}, {"UNIX_", Socket},
	{"QDISC_", Egress}, {"FQ_", Egress}, {"CAKE_", Egress}, {"DUALPI2_", Egress}, {"TC_EGRESS", Egress}, {"FULL_RING", Egress}, {"BPF_CGROUP_EGRESS", Egress},
	{"NEIGH_", Egress}, {"DEV_", Egress},
}

// addStack adds the packets that the stack dropped. Some it has only freed: the XDP hook dropped
// them. These are not added to the losses, because the hook's own counters have them. In generic
// mode the hook has no counter for the packets that a program drops, so these are added to
// r.generic.
func (r *reading) addStack(m *Meter, s stackCounts) {
	for cause, tally := range s.Causes {
		l := m.lossOf(cause)
		switch {
		case lost.IsAtHook(cause.Reason, cause.Location):
			r.Freed = true
			if cause.Location == lost.GenericHook && cause.Reason != "XDP" {
				r.generic.Add(tally)
			}
			if r.filtered != nil {
				r.filtered.atHook.Add(tally)
			}
		case lost.IsHarmless(cause.Reason, cause.Location, cause.Kind):
			addTo(r.Harmless, l, tally)
		case lost.IsDuplicate(cause.Reason):
			addTo(r.Duplicates, l, tally)
		case cause.Unclear:
			addTo(r.Unclear, l, tally)
		default:
			addTo(r.Losses, l, tally)
			if f, ok := s.Examples[cause]; ok {
				r.examples[l] = f
			}
			if r.filtered != nil && !cause.Elsewhere && l.Stage != Egress {
				addTo(r.filtered.received, l, tally)
			}
			r.hasTxCause = r.hasTxCause || cause.Location == lost.GenericTx
		}
	}
}

// lossOf converts a cause of the stack.
func (m *Meter) lossOf(c Cause) Loss {
	l := Loss{Stage: stageOf(c.Reason, c.Kind), Reason: c.Reason, Where: c.Location, Device: c.Device}
	if m.iface == nil {
		if c.Namespace != m.netns {
			l.Netns = c.Namespace
		}
		return l
	}
	switch {
	case c.Own:
		l.Device = ""
	case l.Device == "":
		l.Device = "?"
	}
	return l
}
