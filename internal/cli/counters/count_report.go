package counters

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

type countInterval = meter.Interval[meter.ProtocolCounts]

// CountReport is printed by count: as a table, or with --json as this object.
type CountReport struct {
	IntervalKeys
	Interface string        `json:"interface"`
	Direction string        `json:"direction"`         // in or out
	Program   string        `json:"program,omitempty"` // where one is traced
	ProgramID uint32        `json:"program_id,omitempty"`
	Filter    string        `json:"filter,omitempty"`   // only packets that match it were counted
	Verdicts  []string      `json:"verdicts,omitempty"` // with --verdict: only packets with these were counted
	Protocols []ClassRate   `json:"protocols"`          // most bytes first
	Total     meter.Rate    `json:"total"`
	CPUs      []countCPU    `json:"cpus,omitempty"`          // with --per-cpu
	Sizes     []sizeRate    `json:"sizes,omitempty"`         // with --sizes
	Flows     []FlowRate    `json:"flows,omitempty"`         // with --flows: the largest
	Overflow  *FlowOverflow `json:"flow_overflow,omitempty"` // with --flows

	// For the table of flows, whose rows are conversations.
	flows          int             // most rows, of --flows
	intervals      []countInterval // of this direction, and after Join of the other one
	shownElsewhere bool            // Join has moved them to the report of the other direction
}

// A ClassRate has the packets of one class.
type ClassRate struct {
	Family   string `json:"family"`   // see Class.Family
	Protocol string `json:"protocol"` // see Class.Protocol
	Number   int    `json:"number"`   // see Class.Number
	meter.Rate
}

type countCPU struct {
	CPU       int         `json:"cpu"`
	Protocols []ClassRate `json:"protocols"`
}

type sizeRate struct {
	Size string `json:"size"` // bytes, from-to
	meter.Rate
}

func newCountReport(o *CountOptions, d capture.Direction, iface string, traced *xdp.Program, i countInterval) *CountReport {
	r := &CountReport{
		IntervalKeys: newIntervalKeys(i),
		Interface:    iface,
		Direction:    d.String(),
		Filter:       o.filter.String(),
		Protocols:    classRates(i, meter.ProtocolCounts.Class),
		Total:        meter.NewRate(i.Before.Total(), i.Now.Total(), i.Took),
	}
	if traced != nil {
		r.Program, r.ProgramID = traced.Name, traced.ID
	}
	for _, v := range o.verdicts {
		r.Verdicts = append(r.Verdicts, v.SlotName())
	}
	if o.perCPU {
		for cpu := range i.Now.CPUs() {
			r.CPUs = append(r.CPUs, countCPU{cpu, cpuClassRates(i, cpu)})
		}
	}
	if o.Sizes {
		for k, name := range meter.SizeNames {
			r.Sizes = append(r.Sizes, sizeRate{name, meter.NewRate(i.Before.Sizes[k], i.Now.Sizes[k], i.Took)})
		}
	}
	if o.Flows > 0 {
		r.Flows = flowRates(meter.TopFlows(i, o.Flows))
		r.Overflow = newFlowOverflow(meter.FlowsOf(i))
		r.flows, r.intervals = o.Flows, []countInterval{i}
	}
	return r
}

// classRates returns the rates of all classes that had packets since the counters were opened. The
// class with the most bytes is first. The list is never nil, which JSON would show as null.
func classRates(i countInterval, tally func(meter.ProtocolCounts, meter.Class) meter.Tally) []ClassRate {
	rates := []ClassRate{}
	for _, class := range slices.Sorted(maps.Keys(i.Now.Classes)) {
		r := meter.NewRate(tally(i.Before, class), tally(i.Now, class), i.Took)
		if r.Packets > 0 {
			rates = append(rates, ClassRate{class.Family(), class.Protocol(), class.Number(), r})
		}
	}
	slices.SortStableFunc(rates, func(a, b ClassRate) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rates
}

// cpuClassRates is classRates for the packets that one CPU counted.
func cpuClassRates(i countInterval, cpu int) []ClassRate {
	return classRates(i, func(c meter.ProtocolCounts, class meter.Class) meter.Tally { return c.CPU(class, cpu) })
}

// WriteTable prints the report as tables.
func (r *CountReport) WriteTable(w io.Writer) {
	t := NewRateTable("FAMILY", "PROTOCOL")
	for _, p := range r.Protocols {
		t.Add(RateCells(p.Rate, p.Family, p.Protocol)...)
	}
	t.Add(RateCells(r.Total, "total", "")...)
	t.Write(w)
	r.cpuTable(w)
	r.sizeTable(w)
	r.flowTable(w)
}

func (r *CountReport) cpuTable(w io.Writer) {
	if r.CPUs == nil {
		return
	}
	t := NewRateTable("CPU", "FAMILY", "PROTOCOL")
	for _, c := range r.CPUs {
		for _, p := range c.Protocols {
			t.Add(RateCells(p.Rate, strconv.Itoa(c.CPU), p.Family, p.Protocol)...)
		}
	}
	t.Write(w)
}

func (r *CountReport) sizeTable(w io.Writer) {
	if r.Sizes == nil {
		return
	}
	t := &frame.Table{}
	t.Add(append(RateTitles("SIZE"), "SHARE")...)
	for _, s := range r.Sizes {
		share := "-"
		if r.Total.Packets > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(s.Packets)/float64(r.Total.Packets))
		}
		t.Add(append(RateCells(s.Rate, s.Size), share)...)
	}
	t.Write(w)
}

// FlowRate has the packets of a flow that got the same verdict. The counts since the beginning are
// lower bounds. With ErrorPackets and ErrorBytes added, they are upper bounds.
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
		rates = append(rates, FlowRate{
			Flow:         NewFlow(f.Flow),
			Verdict:      flowVerdict(f.Verdict),
			Rate:         f.Rate,
			ErrorPackets: f.Error.Packets,
			ErrorBytes:   f.Error.Bytes,
		})
	}
	return rates
}

// flowVerdict is the name of the verdict of a flow; "" = no program is traced.
func flowVerdict(v xdp.Verdict) string {
	if v == meter.NoVerdict {
		return ""
	}
	return v.SlotName()
}

// flowTable prints the table of flows, and the numbers of evicted flows.
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
// traced, AT MOST if the bounds of a conversation differ, and BACK if packets go both ways.
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
		f := NewFlow(c.Flow)
		from, to := f.ends()
		t.AddLost(xdp.Loses(c.Verdict), shownCells(isShown, f.Protocol, from, to, flowVerdict(c.Verdict), frame.Scaled(float64(c.Packets)), frame.Scaled(float64(c.Bytes)),
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
