package count

import (
	"io"
	"net/netip"
	"slices"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// FlowRate has the packets of a flow that got the same verdict. The flow had at least these since
// the beginning, and at most those of the error in addition.
type FlowRate struct {
	counters.Flow
	Verdict string `json:"verdict,omitempty"` // where a program is traced
	meter.Rate
	ErrorPackets uint64 `json:"error_packets"`
	ErrorBytes   uint64 `json:"error_bytes"`
}

func flowRates(flows []meter.FlowRate) []FlowRate {
	rates := []FlowRate{}
	for _, f := range flows {
		r := FlowRate{
			Flow:         counters.NewFlow(f.Flow),
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
func (r *Report) flowTable(w io.Writer) {
	if r.Overflow == nil {
		return
	}
	if !r.shownElsewhere {
		r.conversationTable(w)
	}
	r.Overflow.Write(w)
}

func (r *Report) conversationTable(w io.Writer) {
	top := meter.TopConversations(r.flows, r.intervals...)
	bounded := slices.ContainsFunc(top, func(c meter.Conversation) bool { return c.Error.Bytes > 0 })
	answered := slices.ContainsFunc(top, func(c meter.Conversation) bool { return c.Back.Packets > 0 })
	cells := func(verdict, packets, bytes, most, there, back string) (all []string) {
		if r.Program != "" {
			all = append(all, verdict)
		}
		all = append(all, packets, bytes)
		if bounded {
			all = append(all, most)
		}
		all = append(all, there)
		if answered {
			all = append(all, back)
		}
		return all
	}
	rows := [][]string{cells("VERDICT", "PACKETS", "BYTES", "AT MOST", "BIT/S", "BACK")}
	for _, c := range top {
		verdict := ""
		if c.Verdict != meter.NoVerdict {
			verdict = c.Verdict.SlotName()
		}
		rows = append(rows, cells(verdict, frame.Scaled(float64(c.Packets)), frame.Scaled(float64(c.Bytes)),
			frame.Scaled(float64(c.Bytes)+float64(c.Error.Bytes)), frame.Scaled(c.There.BitsPerSecond), frame.Scaled(c.Back.BitsPerSecond)))
	}
	protocols, numbers := &frame.Table{}, &frame.Table{}
	for i, row := range rows {
		numbers.Add(row...)
		if i > 0 {
			protocols.Add(top[i-1].Flow.Class.Protocol())
		}
	}
	const gaps = 3 * 2 // between the four parts
	room := (frame.MaxColumns - gaps - max(protocols.Width(), len("FLOW")) - numbers.Width()) / 2
	t := &frame.Table{Left: 2}
	if r.Program != "" {
		t.Left = 3
	}
	for i, row := range rows {
		names := []string{"FLOW", "FROM", "TO"}
		if i > 0 {
			f := top[i-1].Flow
			names = []string{f.Class.Protocol(), endpointOf(f.Source, room), endpointOf(f.Destination, room)}
		}
		t.Add(append(names, row...)...)
	}
	t.Write(w)
}

func endpointOf(a netip.AddrPort, room int) string {
	return frame.Endpoint(a.Addr().String(), a.Port(), room)
}

// Join shows the conversations of both directions of an interface in the table of the received
// ones.
func (r *Report) Join(all []counters.Report) {
	for _, one := range all {
		other, ok := one.(*Report)
		if ok && r.Direction == capture.In.String() && other.Direction == capture.Out.String() && other.Interface == r.Interface {
			r.intervals = append(r.intervals, other.intervals...)
			other.shownElsewhere = true
		}
	}
}
