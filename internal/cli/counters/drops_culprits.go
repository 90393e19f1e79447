package counters

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xdpcap/xdpcap/internal/drops"
)

// An ExplainedLoss is a loss with who has caused it, as far as that is known, and what to do.
type ExplainedLoss struct {
	drops.LossRate
	Evidence []drops.Evidence `json:"evidence,omitempty"` // the culprit of most packets first
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

// withoutRule returns the losses that no rule of a firewall explains: advice is for these.
func (r *DropsReport) withoutRule() []drops.LossRate {
	all := slices.Clone(r.Losses)
	all = slices.DeleteFunc(all, func(l ExplainedLoss) bool {
		byConntrack := l.Reason == "NETFILTER_DROP" && r.Conntrack.Drop >= l.Packets
		return byConntrack || slices.ContainsFunc(l.Evidence, func(e drops.Evidence) bool { return e.Rule != "" })
	})
	return slices.Concat(lossRates(all), r.Listeners, r.Unclear)
}

// maxUnnumbered is how many culprits of a cause without a counter have a line: there may be one for
// each interface.
const maxUnnumbered = 3

// Culprits returns a line for each culprit, that of most packets first. What the kernel's counters
// tell is about all interfaces.
func (r *DropsReport) Culprits() (lines []string) {
	type culprit struct {
		reason, text string
		packets      uint64 // 0 = unknown
		of           uint64 // packets of the loss
		counted      bool   // by the kernel, for all interfaces
		apart        bool   // in no total
	}
	var all []culprit
	add := func(c culprit) {
		i := slices.IndexFunc(all, func(other culprit) bool { return other.reason == c.reason && other.text == c.text })
		if i < 0 {
			all = append(all, c)
			return
		}
		all[i].of += c.of
	}
	for _, l := range r.Losses {
		for _, e := range l.Evidence {
			add(culprit{shownCause(l.Loss), e.Text, e.Packets, l.Packets, e.Counter != "" && !e.IsOwn, false})
		}
	}
	for _, l := range r.Listeners {
		add(culprit{l.Reason, l.Where, l.Packets, l.Packets, true, true})
	}
	slices.SortStableFunc(all, func(a, b culprit) int {
		return cmp.Compare(cmp.Or(b.packets, b.of), cmp.Or(a.packets, a.of))
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
			if c.counted && r.Interface != "" {
				who += ", all interfaces"
			}
		}
		if c.apart {
			who = outsideTotal + who
		}
		lines = append(lines, who+": "+c.text)
	}
	return lines
}
