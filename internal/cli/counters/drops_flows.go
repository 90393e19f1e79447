package counters

import (
	"fmt"
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// A FlowLoss has the packets of a flow that were lost for a reason. The counts since the beginning
// are lower bounds. With ErrorPackets and ErrorBytes added, they are upper bounds.
type FlowLoss struct {
	Stage  drops.Stage `json:"stage"`
	Reason string      `json:"reason"`
	Flow
	meter.Rate
	ErrorPackets uint64 `json:"error_packets"`
	ErrorBytes   uint64 `json:"error_bytes"`
}

// A StageRate has the losses of a stage that are in no FlowLoss of the report.
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
// the total. It has the column AT MOST if the bounds of a flow differ.
func (r *DropsReport) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	bounded := slices.ContainsFunc(r.Flows, func(f FlowLoss) bool { return f.ErrorPackets > 0 })
	isShown := []bool{true, true, true, true, true, true, bounded, true}
	t := frame.Table{Left: 4, Addresses: []int{2, 3}}
	t.Add(shownCells(isShown, "STAGE", "FLOW", "FROM", "TO", "REASON", "PACKETS", "AT MOST", "PACKETS/S")...)
	add := func(stage drops.Stage, flow, from, to, reason string, rate meter.Rate, most string) {
		t.AddLost(rate.Packets > 0, shownCells(isShown, string(stage), flow, from, to, reason,
			fmt.Sprint(rate.Packets), most, frame.Scaled(rate.PacketsPerSecond))...)
	}
	for _, other := range r.Other {
		for _, f := range r.Flows {
			if f.Stage == other.Stage {
				from, to := f.ends()
				add(f.Stage, f.Protocol, from, to, f.Reason, f.Rate, frame.Scaled(float64(f.Packets)+float64(f.ErrorPackets)))
			}
		}
		add(other.Stage, "other", "", "", "", other.Rate, "")
	}
	t.Write(w)
	r.Overflow.Write(w)
}
