package meter

import (
	"cmp"
	"maps"
	"slices"
)

// A ClassRate has the packets of one class.
type ClassRate struct {
	Class Class
	Rate
}

// ClassRates returns the rates of all classes that had packets since the counters were opened. The
// class with most bytes is first.
func ClassRates(i Interval[ProtocolCounts]) []ClassRate {
	return classRates(i, ProtocolCounts.Class)
}

// CPUClassRates returns the same as ClassRates for what one CPU counted.
func CPUClassRates(i Interval[ProtocolCounts], cpu int) []ClassRate {
	return classRates(i, func(c ProtocolCounts, class Class) Tally { return c.CPU(class, cpu) })
}

func classRates(i Interval[ProtocolCounts], tally func(ProtocolCounts, Class) Tally) (rates []ClassRate) {
	for _, class := range slices.Sorted(maps.Keys(i.Now.Classes)) {
		r := NewRate(tally(i.Before, class), tally(i.Now, class), i.Took)
		if r.Packets > 0 {
			rates = append(rates, ClassRate{class, r})
		}
	}
	slices.SortStableFunc(rates, func(a, b ClassRate) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rates
}

// A FlowRate has the packets of one flow. Packets and Bytes are cumulative since the flow came into
// the table.
type FlowRate struct {
	Flow Flow
	Rate
	lately uint64 // bytes in the interval
}

// TopFlows returns the n flows with most bytes in the interval, in that order. Flows with equally
// many are ordered by their bytes since they came into the table.
func TopFlows(i Interval[ProtocolCounts], n int) []FlowRate {
	var all []FlowRate
	for flow, now := range i.Now.Flows {
		before := i.Before.Flows[flow]
		if now.Packets < before.Packets || now.Bytes < before.Bytes {
			// The flow was pushed out of the table and has come into it again, perhaps with more
			// packets, which are smaller. It was counted from zero, so all of its packets are of
			// this interval.
			before = Tally{}
		}
		all = append(all, FlowRate{flow, NewRate(before, now, i.Took), now.Bytes - before.Bytes})
	}
	slices.SortFunc(all, func(a, b FlowRate) int {
		return cmp.Or(
			cmp.Compare(b.lately, a.lately),
			cmp.Compare(b.Bytes, a.Bytes),
			a.Flow.Source.Compare(b.Flow.Source),
			a.Flow.Destination.Compare(b.Flow.Destination),
			cmp.Compare(a.Flow.Class, b.Flow.Class),
		)
	})
	return all[:min(n, len(all))]
}
