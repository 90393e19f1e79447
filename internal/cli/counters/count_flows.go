package counters

import (
	"io"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// FlowRate has the packets of a flow that got the same verdict. The flow had at least these since
// the beginning, and at most those of the error in addition.
type FlowRate struct {
	Flow
	Verdict string `json:"verdict,omitempty"` // where a program is traced
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

// flowTable has a row for each conversation. There is a column of verdicts if a program is traced,
// one for the other direction if packets of it are counted, and one for the bounds if they differ.
func (r *CountReport) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	if !r.shownElsewhere {
		r.conversationTable(w)
	}
	r.Overflow.Write(w)
}

func (r *CountReport) conversationTable(w io.Writer) {
	top := meter.TopConversations(r.flows, r.intervals...)
	bounded := slices.ContainsFunc(top, func(c meter.Conversation) bool { return c.Error.Bytes > 0 })
	answered := slices.ContainsFunc(top, func(c meter.Conversation) bool { return c.Back.Packets > 0 })
	columns := func(cells ...string) (shown []string) {
		for i, isShown := range []bool{r.Program != "", true, true, bounded, true, answered} {
			if isShown {
				shown = append(shown, cells[i])
			}
		}
		return shown
	}
	t := frame.Table{Left: 2, Addresses: []int{1, 2}}
	if r.Program != "" {
		t.Left = 3
	}
	t.Add(append([]string{"FLOW", "FROM", "TO"}, columns("VERDICT", "PACKETS", "BYTES", "AT MOST", "BIT/S", "BACK")...)...)
	for _, c := range top {
		verdict := ""
		if c.Verdict != meter.NoVerdict {
			verdict = c.Verdict.SlotName()
		}
		f := NewFlow(c.Flow)
		t.AddLost(xdp.Loses(c.Verdict), slices.Concat([]string{f.Protocol}, f.ends(), columns(verdict, frame.Scaled(float64(c.Packets)), frame.Scaled(float64(c.Bytes)),
			frame.Scaled(float64(c.Bytes)+float64(c.Error.Bytes)), frame.Scaled(c.There.BitsPerSecond), frame.Scaled(c.Back.BitsPerSecond)))...)
	}
	t.Write(w)
}

// Join shows the conversations of both directions of an interface in the table of the received
// ones.
func (r *CountReport) Join(all []Report) {
	for _, one := range all {
		other, ok := one.(*CountReport)
		if ok && r.Direction == capture.In.String() && other.Direction == capture.Out.String() && other.Interface == r.Interface {
			r.intervals = append(r.intervals, other.intervals...)
			other.shownElsewhere = true
		}
	}
}
