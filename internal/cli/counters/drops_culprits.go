package counters

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xdpcap/xdpcap/internal/drops"
)

// An ExplainedLoss is a loss with its culprits, if the kernel's counters show them, and advice.
type ExplainedLoss struct {
	drops.LossRate
	Evidence []drops.Evidence `json:"evidence,omitempty"` // ordered by packets
	Advice   string           `json:"advice,omitempty"`
}

func explainedLosses(losses []drops.LossRate, evidence map[drops.Loss][]drops.Evidence, iface string, untraced bool) []ExplainedLoss {
	all := []ExplainedLoss{}
	for _, l := range losses {
		all = append(all, ExplainedLoss{l, evidence[l.Loss], adviceOf(l.Loss, iface, untraced)})
	}
	return all
}

func lossRates(all []ExplainedLoss) (losses []drops.LossRate) {
	for _, l := range all {
		losses = append(losses, l.LossRate)
	}
	return losses
}

// withoutRule returns the losses about which the table gives advice: those whose culprit is no rule
// of a firewall and not conntrack, and those in no total. For the others, the table already names
// the culprit that the advice would search for. As JSON, each loss has its advice.
func (r *DropsReport) withoutRule() []drops.LossRate {
	all := slices.DeleteFunc(slices.Clone(r.Losses), func(l ExplainedLoss) bool {
		// Conntrack drops with the reason of a rule, and its counter accounts for all of them.
		byConntrack := l.Reason == "NETFILTER_DROP" && r.Conntrack.Drop >= l.Packets
		return byConntrack || slices.ContainsFunc(l.Evidence, func(e drops.Evidence) bool { return e.Rule != "" })
	})
	return slices.Concat(lossRates(all), r.Listeners, r.Unclear)
}

// maxUnnumbered bounds the lines about culprits of one cause that have no counter, because there
// may be a culprit for each interface.
const maxUnnumbered = 3

// culprits returns a line for each culprit, ordered by packets. With -i, a line says if its number
// is of all interfaces, as most of the kernel's counters are: only those of an interface's queues
// are its own.
func (r *DropsReport) culprits() (lines []string) {
	type culprit struct {
		reason, text  string
		packets       uint64 // 0 = unknown
		loss          uint64 // packets of the losses that it may have caused
		allInterfaces bool   // the kernel has counted packets for all interfaces
		isOutside     bool   // its packets are in no total
	}
	var all []culprit
	// Several losses of a reason, as in two functions, may have the same culprit. They add up, and
	// its counter has the largest number: it may have been read earlier for one of them.
	add := func(c culprit) {
		i := slices.IndexFunc(all, func(other culprit) bool { return other.reason == c.reason && other.text == c.text })
		if i < 0 {
			all = append(all, c)
			return
		}
		all[i].loss += c.loss
		all[i].packets = max(all[i].packets, c.packets)
	}
	for _, l := range r.Losses {
		for _, e := range l.Evidence {
			add(culprit{reason: shownCause(l.Loss), text: e.Text, packets: e.Packets, loss: l.Packets, allInterfaces: e.Counter != "" && !e.IsOwn})
		}
	}
	for _, l := range r.Listeners {
		add(culprit{reason: l.Reason, text: l.Where, packets: l.Packets, loss: l.Packets, allInterfaces: true, isOutside: true})
	}
	slices.SortStableFunc(all, func(a, b culprit) int {
		return cmp.Compare(cmp.Or(b.packets, b.loss), cmp.Or(a.packets, a.loss))
	})
	unnumbered := make(map[string]int)
	for _, c := range all {
		if c.packets == 0 {
			if unnumbered[c.reason]++; unnumbered[c.reason] > maxUnnumbered {
				continue
			}
		}
		who := c.reason
		if c.packets > 0 {
			who += fmt.Sprint(" ", c.packets)
			if c.allInterfaces && r.Interface != "" {
				who += ", all interfaces"
			}
		}
		if c.isOutside {
			who = outsideTotal + who
		}
		lines = append(lines, who+": "+c.text)
	}
	return lines
}
