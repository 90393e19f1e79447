package read

import (
	"fmt"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/report"
)

// A rated is a row of a table of rates.
type rated struct {
	names []string
	rate  readRate
	more  []string // cells after the rate
	bad   bool
}

// rateFigure is a table of rates with bars of its packets or, with byBytes, its bytes. Where
// packets were sampled, estimates of what there was before follow.
func rateFigure(caption string, byBytes bool, titles []string, rows []rated, more ...string) report.Figure {
	f := report.Figure{
		Caption: caption,
		Columns: append(report.Texts(titles...), report.Numbers("Packets", "Bytes", "Packets/s", "Bit/s")...),
	}
	estimated := len(rows) > 0 && rows[0].rate.Estimate != nil
	if estimated {
		f.Columns = append(f.Columns, report.Numbers("Packets before sampling", "Bytes before sampling")...)
	}
	f.Columns = append(f.Columns, report.Numbers(more...)...)
	chart := report.Chart{Title: "Packets"}
	if byBytes {
		chart.Title = "Bytes"
	}
	for _, r := range rows {
		cells := append([]string{}, r.names...)
		cells = append(cells, report.Grouped(r.rate.Packets), report.Grouped(r.rate.Bytes), report.Rate(r.rate.PacketsPerSecond), report.Rate(r.rate.BitsPerSecond))
		if e := r.rate.Estimate; estimated && e != nil {
			cells = append(cells, between(e.Packets, e.PacketsLow, e.PacketsHigh), between(e.Bytes, e.BytesLow, e.BytesHigh))
		}
		f.Rows = append(f.Rows, report.Row{Cells: append(cells, r.more...), Bad: r.bad})
		n := r.rate.Packets
		if byBytes {
			n = r.rate.Bytes
		}
		const mostBars = 12
		if len(chart.Marks) < mostBars {
			chart.Marks = append(chart.Marks, report.NewMark(strings.Join(r.names, " "), n, r.bad))
		}
	}
	if rows != nil {
		f.Charts = []report.Chart{chart}
	}
	return f
}

// between is an estimate with its bounds.
func between(n, low, high uint64) string {
	return fmt.Sprintf("%s (%s to %s)", report.Grouped(n), report.Grouped(low), report.Grouped(high))
}

func interfaceSection(r *Report) report.Section {
	var rows []rated
	for _, i := range r.Interfaces {
		rows = append(rows, rated{names: []string{i.label}, rate: i.readRate, more: []string{report.Grouped(i.Gaps), report.Grouped(i.LostInGaps)}, bad: i.LostInGaps > 0})
	}
	s := report.Section{Title: "Interfaces", Figures: []report.Figure{
		rateFigure("Packets that were read, by interface", false, []string{"Interface"}, rows, "Gaps", "Lost in them"),
	}}
	for _, text := range r.NotEstimated {
		s.Text = append(s.Text, "Not estimated: "+text)
	}
	return s
}

func verdictSection(r *Report) report.Section {
	var rows []rated
	for _, name := range verdictOrder {
		if v, ok := r.Verdicts[name]; ok {
			rows = append(rows, rated{names: []string{name}, rate: v, bad: name == capture.Drop.String() || name == capture.Aborted.String() || name == tcWord+"shot"})
		}
	}
	return report.Section{Title: "Verdicts", Figures: []report.Figure{rateFigure("Packets by the verdict of the traced program", false, []string{"Verdict"}, rows)}}
}

// dropSections have what was thrown away: where on the packets' way, and why.
func (w *pageWriter) dropSections(s *statistics, r *Report) (all []report.Section) {
	if len(w.stages) == 0 && r.Reasons == nil {
		return nil
	}
	section := report.Section{Title: "Drops"}
	var stages, reasons []rated
	for _, stage := range drops.Stages {
		if t := w.stages[stage]; t != nil {
			stages = append(stages, rated{names: []string{string(stage)}, rate: s.rate(*t), bad: true})
		}
	}
	if stages != nil {
		section.Figures = append(section.Figures, rateFigure("Packets that were thrown away, by the stage of their way", false, []string{"Stage"}, stages))
	}
	for _, c := range r.Reasons {
		reasons = append(reasons, rated{names: []string{c.Reason, c.Location}, rate: c.readRate, bad: true})
	}
	if reasons != nil {
		section.Figures = append(section.Figures, rateFigure("Packets that were thrown away, by reason", false, []string{"Reason", "Where"}, reasons))
	}
	return []report.Section{section}
}

func (w *pageWriter) protocolSection(s *statistics, r *Report) report.Section {
	var rows []rated
	for _, n := range byPackets(w.protocols, func(p protocol) []string { return []string{p.family, p.name} }) {
		rows = append(rows, rated{names: n.names, rate: s.rate(n.tally)})
	}
	const most = 100
	section := report.Section{Title: "Protocols"}
	if len(rows) > most {
		section.Text = []string{fmt.Sprintf("The %d with most packets, of %d.", most, len(rows))}
		rows = rows[:most]
	}
	section.Figures = []report.Figure{rateFigure("Packets by protocol", false, []string{"Family", "Protocol"}, rows)}
	return section
}

func flowSection(r *Report) report.Section {
	s := report.Section{Title: "Flows"}
	var rows []rated
	for _, f := range r.Flows {
		const whole = 64 // columns: an IPv6 address with its port
		rows = append(rows, rated{names: []string{f.Protocol, frame.Endpoint(f.Source, f.SourcePort, whole), frame.Endpoint(f.Destination, f.DestinationPort, whole)}, rate: f.readRate})
	}
	if r.Overflow != nil {
		s.Text = append(s.Text, fmt.Sprintf("%s packets, %s bytes are of flows after the first %s, which are not listed.", report.Grouped(r.Overflow.Packets), report.Grouped(r.Overflow.Bytes), report.Grouped(maxReadFlows)))
	}
	if rows == nil {
		s.Text = append(s.Text, "No packet has IP addresses.")
		return s
	}
	s.Figures = []report.Figure{rateFigure(fmt.Sprintf("The %d flows with most bytes, one direction each", len(rows)), true, []string{"Protocol", "From", "To"}, rows)}
	return s
}

func (w *pageWriter) sizeSection(s *statistics) report.Section {
	var rows []rated
	for i, name := range meter.SizeNames {
		rows = append(rows, rated{names: []string{name}, rate: s.rate(w.sizes[i])})
	}
	return report.Section{Title: "Sizes", Figures: []report.Figure{rateFigure("Packets by size in bytes, from the Ethernet header on", false, []string{"Bytes"}, rows)}}
}
