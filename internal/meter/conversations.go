package meter

import (
	"cmp"
	"slices"
)

// A Conversation has the packets of a flow and of the flow in the other direction that got the same
// verdict. FlowRate is the sum of both, and its Flow is the one with more bytes.
type Conversation struct {
	FlowRate
	There, Back Rate // of Flow, and of the other direction
}

// TopConversations returns the n conversations with the most bytes in the interval, in that order.
// The intervals are of counters that ran at the same time, such as those of an interface's received
// packets and of its sent ones. Packets without a verdict are added to the conversation's verdict
// with the most bytes.
func TopConversations(n int, intervals ...Interval[ProtocolCounts]) []Conversation {
	var flows []FlowRate
	for _, i := range intervals {
		flows = append(flows, FlowRates(FlowsOf(i))...)
	}
	inheritVerdicts(flows)
	// The direction with more bytes comes first, and becomes the conversation's Flow.
	slices.SortFunc(flows, func(a, b FlowRate) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), compareFlows(a, b)) })
	indices := make(map[flowKey]int)
	var all []Conversation
	for _, f := range flows {
		key := flowKey{f.Flow, f.Verdict}
		i, known := indices[key]
		if !known {
			i = len(all)
			indices[key], indices[flowKey{f.Flow.reverse(), f.Verdict}] = i, i
			all = append(all, Conversation{FlowRate: FlowRate{Flow: f.Flow, Verdict: f.Verdict}})
		}
		all[i].add(f)
	}
	slices.SortFunc(all, func(a, b Conversation) int { return compareFlows(a.FlowRate, b.FlowRate) })
	return all[:min(n, len(all))]
}

// inheritVerdicts sets the verdict of flows without one: that of their conversation with the most
// bytes.
func inheritVerdicts(flows []FlowRate) {
	most := make(map[Flow]FlowRate)
	for _, f := range flows {
		if f.Verdict == NoVerdict {
			continue
		}
		for _, flow := range []Flow{f.Flow, f.Flow.reverse()} {
			if m, ok := most[flow]; !ok || f.Bytes > m.Bytes || f.Bytes == m.Bytes && f.Verdict < m.Verdict {
				most[flow] = f
			}
		}
	}
	for i, f := range flows {
		if m, ok := most[f.Flow]; ok && f.Verdict == NoVerdict {
			flows[i].Verdict = m.Verdict
		}
	}
}

func (c *Conversation) add(f FlowRate) {
	c.Rate.Add(f.Rate)
	c.Error.Add(f.Error)
	c.intervalBytes += f.intervalBytes
	if f.Flow == c.Flow {
		c.There.Add(f.Rate)
	} else {
		c.Back.Add(f.Rate)
	}
}

func (f Flow) reverse() Flow { return Flow{f.Class, f.Destination, f.Source} }
