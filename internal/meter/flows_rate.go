package meter

import (
	"cmp"
	"slices"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A FlowRate has the packets of a flow that got the same verdict. Packets and Bytes are cumulative
// since the flow got its entry in the table: the flow had at least those, and at most those of
// Error in addition.
type FlowRate struct {
	Flow    Flow
	Verdict xdp.Verdict // as in FlowEntry
	Rate
	Error         Tally
	intervalBytes uint64 // bytes in the interval
}

// TopFlows returns the n flows with the most bytes in the interval, in that order. Flows with equal
// bytes are ordered by their cumulative bytes.
func TopFlows(i Interval[ProtocolCounts], n int) []FlowRate {
	all := FlowRates(FlowsOf(i))
	slices.SortFunc(all, compareFlows)
	return all[:min(n, len(all))]
}

// FlowsOf returns the flows of an interval.
func FlowsOf(i Interval[ProtocolCounts]) Interval[FlowCounts] {
	return Interval[FlowCounts]{Before: i.Before.FlowCounts, Now: i.Now.FlowCounts, Took: i.Took}
}

// FlowRates returns all flows that have an entry, in no order.
func FlowRates(i Interval[FlowCounts]) (all []FlowRate) {
	sums := make(map[flowKey]flowSum)
	for bucket := range i.Now.buckets() {
		clear(sums)
		sumFlows(i, bucket, sums)
		for key, s := range sums {
			all = append(all, FlowRate{key.Flow, key.Verdict, NewRate(s.before, s.now, i.Took), s.error, s.now.Bytes - s.before.Bytes})
		}
	}
	return all
}

func compareFlows(a, b FlowRate) int {
	return cmp.Or(
		cmp.Compare(b.intervalBytes, a.intervalBytes),
		cmp.Compare(b.Bytes, a.Bytes),
		a.Flow.Compare(b.Flow),
		cmp.Compare(a.Verdict, b.Verdict),
	)
}

// buckets returns the number of buckets of each CPU.
func (c FlowCounts) buckets() int {
	if len(c.Flows) == 0 {
		return 0
	}
	return len(c.Flows[0])
}

type flowKey struct {
	Flow
	Verdict xdp.Verdict
}

// A flowSum has the packets of a flow on all CPUs, at the beginning and the end of an interval.
// before only has the entries that are also in now.
type flowSum struct {
	before, now, error Tally
}

// sumFlows adds up the entries of all CPUs in a bucket. A flow's error is the sum, over all CPUs,
// of its entry's Error or, on a CPU where it has no entry, of the bucket's Missed.
func sumFlows(i Interval[FlowCounts], bucket int, sums map[flowKey]flowSum) {
	var missed Tally
	for _, buckets := range i.Now.Flows {
		missed.Add(buckets[bucket].Missed)
	}
	for cpu, buckets := range i.Now.Flows {
		b := &buckets[bucket]
		for index, e := range b.Entries {
			key := flowKey{e.Flow, e.Verdict}
			s, ok := sums[key]
			if !ok {
				s.error = missed
			}
			s.now.Add(e.Counted)
			s.before.Add(countedBefore(i.Before, cpu, bucket, index, &e))
			s.error.Packets -= b.Missed.Packets - e.Error.Packets
			s.error.Bytes -= b.Missed.Bytes - e.Error.Bytes
			sums[key] = s
		}
	}
}

// countedBefore returns the count of the same entry in an earlier snapshot. It is 0 if the flow did
// not have the entry then, or lost it and got it back; in the second case Error differs, because it
// includes the lost count.
func countedBefore(before FlowCounts, cpu, bucket, index int, now *FlowEntry) Tally {
	if cpu >= len(before.Flows) || index >= len(before.Flows[cpu][bucket].Entries) {
		return Tally{}
	}
	e := &before.Flows[cpu][bucket].Entries[index]
	if e.Flow != now.Flow || e.Verdict != now.Verdict || e.Error != now.Error {
		return Tally{}
	}
	return e.Counted
}
