// Package drops counts the packets that get lost on their way from a network card to a socket, and
// on the way out, and says where and why, as far as the kernel tells.
//
// A packet is counted at the stage that lost it, and at no other, though the kernel and drivers
// often tell one loss twice.
package drops

import (
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A Stage is a part of a packet's way.
type Stage string

const (
	Card   Stage = "card"   // the card and its driver, before the XDP hook
	XDP    Stage = "XDP"    // the XDP program, and what it redirects to
	Stack  Stage = "stack"  // from there to the sockets
	Socket Stage = "socket" // the socket that the packet was for
	Egress Stage = "egress" // the queues on the way out
)

// stages are in the order of a packet's way.
var stages = []Stage{Card, XDP, Stack, Socket, Egress}

// Stages returns all stages, in the order of a packet's way.
func Stages() []Stage { return slices.Clone(stages) }

// A Loss is a cause of loss. Each has its own counter.
type Loss struct {
	Stage  Stage  `json:"stage"`
	Reason string `json:"reason"`           // "NO_SOCKET", "drop", "redirect: network is down", "rx_missed"
	Where  string `json:"where,omitempty"`  // the kernel's function, program, map, interface or listener; "" where nothing is known
	Netns  uint32 `json:"netns,omitempty"`  // of the whole machine: the inode of Device's network namespace, where it is another one than ours
	Device string `json:"device,omitempty"` // where it is another interface than the one that is asked about; "?" = unknown, "gone" = of former ones
}

// Counts is the result of Meter.Read, cumulative since Open. The caller owns it.
type Counts struct {
	Losses map[Loss]Tally

	// Harmless has what the kernel reports like losses, though nobody misses these packets: copies
	// for multicast that nobody has joined, packets for other hosts, and the like.
	Harmless map[Loss]Tally

	// Duplicates has segments of TCP whose data the receiver already had.
	Duplicates map[Loss]Tally

	// Unclear has losses that may be another interface's than the one that is asked about: of these
	// packets the kernel has forgotten all but the index of the interface on which they came in,
	// which interfaces of other network namespaces may have, too.
	Unclear map[Loss]Tally

	// Unfiltered has losses of which no program sees the packets, if there is a filter: those of
	// the card and, mostly, failures at the XDP hook. They are of all packets. Without a filter
	// they are in Losses.
	Unfiltered map[Loss]Tally

	// Listeners has what listening sockets of TCP refused, if one interface is asked about: these
	// packets may be of any interface of the network namespace. Otherwise they are in Losses.
	Listeners map[Loss]Tally

	// Evidence says who has lost the packets of a loss, as far as the kernel tells. Losses of other
	// network namespaces have none, except at XDP.
	Evidence map[Loss][]Evidence

	// Check is what differs from the kernel's own counters of the network namespace; nil unless
	// asked for.
	Check *Remainder

	// Retransmits is what TCP sent again; nil unless asked for.
	Retransmits *Retransmits

	Flows FlowCounts // see TopFlows; zero unless asked for
	Way   *Way       // nil without a filter

	// Softnet tells of the whole machine, whichever interface is asked about.
	Softnet lost.Softnet

	Conntrack Conntrack

	// Untraced is why the interface's XDP program is not traced; nil = it is, or none runs. Freed
	// says that what it drops is freed as buffers of the stack: then a Filter selects these
	// packets, too.
	Untraced error
	Freed    bool

	Missed uint64 // losses in neither of them: there were too many causes, or an interrupt came in between
}

func newCounts() Counts {
	return Counts{
		Losses: make(map[Loss]Tally), Harmless: make(map[Loss]Tally), Duplicates: make(map[Loss]Tally), Unclear: make(map[Loss]Tally),
		Unfiltered: make(map[Loss]Tally), Listeners: make(map[Loss]Tally), Evidence: make(map[Loss][]Evidence),
	}
}

// A Tally is a number of lost packets, a segment of a buffer that has several being one, and their
// bytes without headers that were already removed; 0 = unknown.
type Tally = meter.Tally

func (c *Counts) add(to map[Loss]Tally, l Loss, more Tally) {
	more.Add(to[l])
	if more != (Tally{}) {
		to[l] = more
	}
}

// stageOf tells at which stage the stack lost a packet, by the reason and the kind.
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

// StageOf tells at which stage the stack lost a packet, by the reason alone, as capture files have
// it.
func StageOf(reason string) Stage { return stageOf(reason, 0) }

// stagesOfReasons are the stages of reasons that begin like this.
var stagesOfReasons = []struct {
	prefix string
	stage  Stage
}{
	{"SOCKET_", Socket}, {"PROTO_MEM", Socket}, {"TCP_", Socket}, {"UNIX_", Socket},
	{"QDISC_", Egress}, {"FQ_", Egress}, {"CAKE_", Egress}, {"DUALPI2_", Egress}, {"TC_EGRESS", Egress}, {"FULL_RING", Egress}, {"BPF_CGROUP_EGRESS", Egress},
	{"NEIGH_", Egress}, {"DEV_", Egress},
}

// addStack adds the packets that the stack threw away. Those that it threw away for the XDP hook
// are not among the losses, because the hook's own counters have them. In generic mode the hook has
// no counter for the packets that a program drops, so these are added to r.generic.
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
			r.add(r.Harmless, l, tally)
		case lost.IsDuplicate(cause.Reason):
			r.add(r.Duplicates, l, tally)
		case cause.Unclear:
			r.add(r.Unclear, l, tally)
		default:
			r.add(r.Losses, l, tally)
			if f, ok := s.Examples[cause]; ok {
				r.examples[l] = f
			}
			if r.filtered != nil && !cause.Elsewhere && l.Stage != Egress {
				r.add(r.filtered.received, l, tally)
			}
			r.txApart = r.txApart || cause.Location == lost.GenericTx
		}
	}
}

// lossOf names a cause of the stack.
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
