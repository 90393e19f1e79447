package meter

import (
	"cmp"
	"slices"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A FlowRate has the packets of a flow that got the same verdict. Packets and Bytes are cumulative
// since the flow has an entry in the table: they are the least that it had since the beginning. It
// had at most the packets and bytes in Error besides.
type FlowRate struct {
	Flow    Flow
	Verdict xdp.Verdict // as in FlowEntry
	Rate
	Error  Tally
	lately uint64 // bytes in the interval
}

// TopFlows returns the n flows with most bytes in the interval, in that order. Flows with equally
// many are ordered by their bytes since they came into the table.
func TopFlows(i Interval[ProtocolCounts], n int) []FlowRate {
	var all []FlowRate
	sums := make(map[flowKey]flowSum)
	for bucket := range i.Now.buckets() {
		clear(sums)
		sumFlows(i, bucket, sums)
		for key, s := range sums {
			all = append(all, FlowRate{key.Flow, key.Verdict, NewRate(s.before, s.now, i.Took), s.error, s.now.Bytes - s.before.Bytes})
		}
	}
	slices.SortFunc(all, func(a, b FlowRate) int {
		return cmp.Or(
			cmp.Compare(b.lately, a.lately),
			cmp.Compare(b.Bytes, a.Bytes),
			a.Flow.Source.Compare(b.Flow.Source),
			a.Flow.Destination.Compare(b.Flow.Destination),
			cmp.Compare(a.Flow.Class, b.Flow.Class),
			cmp.Compare(a.Verdict, b.Verdict),
		)
	})
	return all[:min(n, len(all))]
}

// buckets returns how many buckets each CPU has.
func (c ProtocolCounts) buckets() int {
	if len(c.Flows) == 0 {
		return 0
	}
	return len(c.Flows[0])
}

type flowKey struct {
	Flow
	Verdict xdp.Verdict
}

// A flowSum has the packets of a flow on all CPUs, at the beginning and the end of an interval. Of
// before it has only those that are in now, too.
type flowSum struct {
	before, now, error Tally
}

// sumFlows adds up the entries that all CPUs have in a bucket. A flow that has none on a CPU may
// have had there what that CPU has missed.
func sumFlows(i Interval[ProtocolCounts], bucket int, sums map[flowKey]flowSum) {
	var missed Tally
	for _, buckets := range i.Now.Flows {
		missed.Add(buckets[bucket].Missed)
	}
	for cpu, buckets := range i.Now.Flows {
		b := &buckets[bucket]
		for place, e := range b.Entries {
			key := flowKey{e.Flow, e.Verdict}
			s, ok := sums[key]
			if !ok {
				s.error = missed
			}
			s.now.Add(e.Counted)
			s.before.Add(countedBefore(i.Before, cpu, bucket, place, &e))
			s.error.Packets -= b.Missed.Packets - e.Error.Packets
			s.error.Bytes -= b.Missed.Bytes - e.Error.Bytes
			sums[key] = s
		}
	}
}

// countedBefore returns what an earlier snapshot had counted for the same entry: nothing, if the
// flow did not have it then, or lost it and got it back. Then it has another error: what it lost is
// part of that.
func countedBefore(before ProtocolCounts, cpu, bucket, place int, now *FlowEntry) Tally {
	if cpu >= len(before.Flows) || place >= len(before.Flows[cpu][bucket].Entries) {
		return Tally{}
	}
	e := &before.Flows[cpu][bucket].Entries[place]
	if e.Flow != now.Flow || e.Verdict != now.Verdict || e.Error != now.Error {
		return Tally{}
	}
	return e.Counted
}
