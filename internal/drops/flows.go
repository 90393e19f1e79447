package drops

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// FlowCounts are the flows of the packets that the stack dropped, without harmless ones and
// duplicates. FlowEntry.Verdict is the reason. Bytes are as in Tally.
type FlowCounts struct {
	meter.FlowCounts
	reasons lost.Reasons // names of the reasons
}

// sentReason is added to the reason of a flow's packets if their kind is lost.Sent, as in drops.c.
const sentReason = 1 << 31

// A FlowLoss has the packets of one direction of a conversation that were lost for a reason. The
// flow had at least the packets in Rate, and at most those of Error in addition.
type FlowLoss struct {
	Reason string // as in Loss
	Flow   meter.Flow
	meter.Rate
	Error meter.Tally
}

// StageFlows are the flows with the most losses of a stage.
type StageFlows struct {
	Stage Stage
	Top   []FlowLoss // the flow with the most packets first
	Other meter.Rate // the stage's other losses
}

// TopFlows returns, for each stage that lost packets, the n flows with the most losses, and the sum
// of its other losses. Top is empty for the card and the XDP hook, whose packets no program of ours
// sees. It needs Options.Flows.
func TopFlows(i meter.Interval[Counts], n int) (all []StageFlows) {
	top := make(map[Stage][]FlowLoss)
	flows := meter.Interval[meter.FlowCounts]{Before: i.Before.Flows.FlowCounts, Now: i.Now.Flows.FlowCounts, Took: i.Took}
	for _, f := range meter.FlowRates(flows) {
		kind := lost.Kind(0)
		if f.Verdict&sentReason != 0 {
			kind = lost.Sent
		}
		reason := reasonName(i.Now.Flows.reasons, lost.Reason(f.Verdict&^sentReason))
		stage := stageOf(reason, kind)
		top[stage] = append(top[stage], FlowLoss{reason, f.Flow, f.Rate, f.Error})
	}
	before, now := stageTotals(i.Before.Losses), stageTotals(i.Now.Losses)
	for _, stage := range Stages {
		if now[stage] == (meter.Tally{}) {
			continue
		}
		flows := top[stage]
		slices.SortFunc(flows, compareLosses)
		s := StageFlows{Stage: stage, Top: flows[:min(n, len(flows))]}
		otherBefore, otherNow := before[stage], now[stage]
		for _, f := range s.Top {
			subtract(&otherNow, f.Packets, f.Bytes)
			subtract(&otherBefore, minus(f.Packets, riseIn(i.Took, f.PacketsPerSecond)), minus(f.Bytes, riseIn(i.Took, f.BitsPerSecond/8)))
		}
		s.Other = meter.NewRate(otherBefore, otherNow, i.Took)
		all = append(all, s)
	}
	return all
}

// riseIn returns by how much a counter with this rate has risen in an interval.
func riseIn(interval time.Duration, perSecond float64) uint64 {
	return uint64(math.Round(perSecond * interval.Seconds()))
}

func subtract(t *meter.Tally, packets, bytes uint64) {
	t.Packets, t.Bytes = minus(t.Packets, packets), minus(t.Bytes, bytes)
}

func compareLosses(a, b FlowLoss) int {
	return cmp.Or(
		cmp.Compare(b.Packets, a.Packets),
		cmp.Compare(b.Bytes, a.Bytes),
		a.Flow.Compare(b.Flow),
		cmp.Compare(a.Reason, b.Reason),
	)
}

// enableFlows makes the program count the flows of losses, but not of harmless packets.
func (s *stackMeter) enableFlows(spec *ebpf.CollectionSpec, buckets int) error {
	const withHook = true // also packets that are freed for the XDP hook are no losses
	constants, err := lost.Constants(s.reasons, s.symbols, withHook)
	if err != nil {
		return err
	}
	constants[stackVarWithFlows] = true
	if err := attach.Set(spec, constants); err != nil {
		return err
	}
	return meter.SizeFlows(spec, buckets)
}
