package counters

import (
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// FlowRate has the packets of a flow that got the same verdict. They are a lower bound since the
// beginning: with ErrorPackets and ErrorBytes added, they are the upper bound.
type FlowRate struct {
	Flow
	Verdict string `json:"verdict,omitempty"` // only if a program is traced
	meter.Rate
	ErrorPackets uint64 `json:"error_packets"`
	ErrorBytes   uint64 `json:"error_bytes"`
}

func flowRates(flows []meter.FlowRate) []FlowRate {
	rates := []FlowRate{}
	for _, f := range flows {
		r := FlowRate{
			Flow:         NewFlow(f.Flow),
			Rate:         f.Rate,
			ErrorPackets: f.Error.Packets,
			ErrorBytes:   f.Error.Bytes,
		}
		if f.Verdict != meter.NoVerdict {
			r.Verdict = f.Verdict.SlotName()
		}
		rates = append(rates, r)
	}
	return rates
}

// flowTable prints the table of flows, and which flows had no room in the kernel's.
func (r *CountReport) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	if !r.shownElsewhere {
		r.conversationTable(w)
	}
	r.Overflow.Write(w)
}

// conversationTable has a row for each conversation. It has a column of verdicts if a program is
// traced, AT MOST if the bounds of a conversation differ, and BACK if the other direction is counted.
func (r *CountReport) conversationTable(w io.Writer) {
	top := meter.TopConversations(r.flows, r.intervals...)
	bounded := slices.ContainsFunc(top, func(c meter.Conversation) bool { return c.Error.Bytes > 0 })
	answered := slices.ContainsFunc(top, func(c meter.Conversation) bool { return c.Back.Packets > 0 })
	t := frame.Table{Left: 2, Addresses: []int{1, 2}}
	if r.Program != "" {
		t.Left = 3
	}
	isShown := []bool{true, true, true, r.Program != "", true, true, bounded, true, answered}
	t.Add(shownCells(isShown, "FLOW", "FROM", "TO", "VERDICT", "PACKETS", "BYTES", "AT MOST", "BIT/S", "BACK")...)
	for _, c := range top {
		verdict := ""
		if c.Verdict != meter.NoVerdict {
			verdict = c.Verdict.SlotName()
		}
		f := NewFlow(c.Flow)
		from, to := f.ends()
		t.AddLost(xdp.Loses(c.Verdict), shownCells(isShown, f.Protocol, from, to, verdict, frame.Scaled(float64(c.Packets)), frame.Scaled(float64(c.Bytes)),
			frame.Scaled(float64(c.Bytes)+float64(c.Error.Bytes)), frame.Scaled(c.There.BitsPerSecond), frame.Scaled(c.Back.BitsPerSecond))...)
	}
	t.Write(w)
}

// Join moves the conversations of both directions of an interface into the table of the received
// packets.
func (r *CountReport) Join(all []Report) {
	for _, one := range all {
		other, ok := one.(*CountReport)
		if ok && r.Direction == capture.In.String() && other.Direction == capture.Out.String() && other.Interface == r.Interface {
			r.intervals = append(r.intervals, other.intervals...)
			other.shownElsewhere = true
		}
	}
}
