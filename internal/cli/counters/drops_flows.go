package counters

import (
	"fmt"
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A FlowLoss has the packets of a flow that were lost for a reason. The flow lost at least these
// since the beginning, and at most those of the error in addition.
type FlowLoss struct {
	Stage  drops.Stage `json:"stage"`
	Reason string      `json:"reason"`
	Flow
	meter.Rate
	ErrorPackets uint64 `json:"error_packets"`
	ErrorBytes   uint64 `json:"error_bytes"`
}

// A StageRate is what a stage has lost that is in no FlowLoss of the report.
type StageRate struct {
	Stage drops.Stage `json:"stage"`
	meter.Rate
}

// addFlows adds the n flows with the most losses of each stage.
func (r *DropsReport) addFlows(i dropsInterval, n int) {
	for _, s := range drops.TopFlows(i, n) {
		for _, f := range s.Top {
			r.Flows = append(r.Flows, FlowLoss{
				Stage:        s.Stage,
				Reason:       f.Reason,
				Flow:         NewFlow(f.Flow),
				Rate:         f.Rate,
				ErrorPackets: f.Error.Packets,
				ErrorBytes:   f.Error.Bytes,
			})
		}
		r.Other = append(r.Other, StageRate{s.Stage, s.Other})
	}
	r.Overflow = newFlowOverflow(meter.Interval[meter.FlowCounts]{
		Before: i.Before.Flows.FlowCounts, Now: i.Now.Flows.FlowCounts, Took: i.Took,
	})
}

// flowTable has a row for each flow, and one for the other losses of each stage: together they are
// the total. There is a column for the bounds if they differ.
func (r *DropsReport) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	bounded := slices.ContainsFunc(r.Flows, func(f FlowLoss) bool { return f.ErrorPackets > 0 })
	numbers := func(reason, packets, most, perSecond string) []string {
		if !bounded {
			return []string{reason, packets, perSecond}
		}
		return []string{reason, packets, most, perSecond}
	}
	t := frame.Table{Left: 4, Addresses: []int{2, 3}}
	t.Add(append([]string{"STAGE", "FLOW", "FROM", "TO"}, numbers("REASON", "PACKETS", "AT MOST", "PACKETS/S")...)...)
	flows := r.Flows
	for _, other := range r.Other {
		for len(flows) > 0 && flows[0].Stage == other.Stage {
			f := &flows[0]
			flows = flows[1:]
			t.AddLost(f.Packets > 0, slices.Concat([]string{string(f.Stage), f.Protocol}, f.ends(), numbers(f.Reason, fmt.Sprint(f.Packets),
				frame.Scaled(float64(f.Packets)+float64(f.ErrorPackets)), frame.Scaled(f.PacketsPerSecond)))...)
		}
		t.AddLost(other.Packets > 0, append([]string{string(other.Stage), "other", "", ""}, numbers("", fmt.Sprint(other.Packets), "", frame.Scaled(other.PacketsPerSecond))...)...)
	}
	t.Write(w)
	r.Overflow.Write(w)
}
