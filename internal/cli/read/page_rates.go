package read

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/drops"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/report"
)

// A rateRow is a row of a table of rates.
type rateRow struct {
	names []string
	rate  readRate
	more  []string // cells after the rate
	bad   bool     // the packets were lost
}

// The number of a bar beside a table of rates.
type barUnit string

const (
	barsOfPackets barUnit = "Packets"
	barsOfBytes   barUnit = "Bytes"
)

// rateFigure is a table of rates with bars. The rows' names have these titles, and their further
// cells the titles in more. If packets were sampled, the table has estimates of all packets, too.
func rateFigure(caption string, bars barUnit, titles []string, rows []rateRow, more ...string) report.Figure {
	f := report.Figure{
		Caption: caption,
		Columns: append(report.Texts(titles...), report.Numbers("Packets", "Bytes", "Packets/s", "Bit/s")...),
	}
	estimated := len(rows) > 0 && rows[0].rate.Estimate != nil
	if estimated {
		f.Columns = append(f.Columns, report.Numbers("Packets before sampling", "Bytes before sampling")...)
	}
	f.Columns = append(f.Columns, report.Numbers(more...)...)
	chart := report.Chart{Title: string(bars)}
	for _, r := range rows {
		cells := append(slices.Clone(r.names), report.Grouped(r.rate.Packets), report.Grouped(r.rate.Bytes), report.Rate(r.rate.PacketsPerSecond), report.Rate(r.rate.BitsPerSecond))
		if e := r.rate.Estimate; estimated && e != nil {
			cells = append(cells, between(e.Packets, e.PacketsLow, e.PacketsHigh), between(e.Bytes, e.BytesLow, e.BytesHigh))
		}
		f.Rows = append(f.Rows, report.Row{Cells: append(cells, r.more...), Bad: r.bad})
		const mostBars = 12
		if len(chart.Marks) < mostBars {
			n := r.rate.Packets
			if bars == barsOfBytes {
				n = r.rate.Bytes
			}
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
	var rows []rateRow
	for _, i := range r.Interfaces {
		rows = append(rows, rateRow{names: []string{i.label}, rate: i.readRate, more: []string{report.Grouped(i.Gaps), report.Grouped(i.LostInGaps)}, bad: i.LostInGaps > 0})
	}
	s := report.Section{Title: "Interfaces", Figures: []report.Figure{
		rateFigure("Packets that were read, by interface", barsOfPackets, []string{"Interface"}, rows, "Gaps", "Lost in them"),
	}}
	for _, text := range r.NotEstimated {
		s.Text = append(s.Text, "Not estimated: "+text)
	}
	return s
}

func verdictSection(r *Report) report.Section {
	var rows []rateRow
	for _, name := range verdictOrder {
		if v, ok := r.Verdicts[name]; ok {
			rows = append(rows, rateRow{names: []string{name}, rate: v, bad: name == capture.Drop.String() || name == capture.Aborted.String() || name == tcWord+"shot"})
		}
	}
	return report.Section{Title: "Verdicts", Figures: []report.Figure{rateFigure("Packets by the verdict of the traced program", barsOfPackets, []string{"Verdict"}, rows)}}
}

// dropSections show the packets that were thrown away, by stage and by reason; nil = none were.
func (w *pageWriter) dropSections(s *statistics, r *Report) (all []report.Section) {
	if len(w.lostAt) == 0 && r.Reasons == nil {
		return nil
	}
	section := report.Section{Title: "Drops"}
	var stages, reasons []rateRow
	for _, stage := range drops.Stages {
		if t := w.lostAt[stage]; t != nil {
			stages = append(stages, rateRow{names: []string{string(stage)}, rate: s.rate(*t), bad: true})
		}
	}
	section.AddFigure(rateFigure("Packets that were thrown away, by the stage of their way", barsOfPackets, []string{"Stage"}, stages))
	for _, c := range r.Reasons {
		reasons = append(reasons, rateRow{names: []string{c.Reason, c.Location}, rate: c.readRate, bad: true})
	}
	section.AddFigure(rateFigure("Packets that were thrown away, by reason", barsOfPackets, []string{"Reason", "Where"}, reasons))
	return []report.Section{section}
}

func (w *pageWriter) protocolSection(s *statistics, r *Report) report.Section {
	var rows []rateRow
	for _, n := range byPackets(w.protocols, func(p protocol) []string { return []string{p.family, p.name} }) {
		rows = append(rows, rateRow{names: n.names, rate: s.rate(n.tally)})
	}
	const mostRows = 100
	section := report.Section{Title: "Protocols"}
	if len(rows) > mostRows {
		section.Text = []string{fmt.Sprintf("The %d with most packets, of %d.", mostRows, len(rows))}
		rows = rows[:mostRows]
	}
	section.Figures = []report.Figure{rateFigure("Packets by protocol", barsOfPackets, []string{"Family", "Protocol"}, rows)}
	return section
}

func flowSection(r *Report) report.Section {
	s := report.Section{Title: "Flows"}
	var rows []rateRow
	for _, f := range r.Flows {
		const whole = 64 // columns: an IPv6 address with its port
		from, to := f.ends(whole)
		rows = append(rows, rateRow{names: []string{f.Protocol, from, to}, rate: f.readRate})
	}
	if r.Overflow != nil {
		s.Text = append(s.Text, fmt.Sprintf("%s packets, %s bytes are of flows after the first %s, which are not listed.", report.Grouped(r.Overflow.Packets), report.Grouped(r.Overflow.Bytes), report.Grouped(maxReadFlows)))
	}
	if rows == nil {
		s.Text = append(s.Text, "No packet has IP addresses.")
		return s
	}
	s.Figures = []report.Figure{rateFigure(fmt.Sprintf("The %d flows with most bytes, one direction each", len(rows)), barsOfBytes, []string{"Protocol", "From", "To"}, rows)}
	return s
}

func (w *pageWriter) sizeSection(s *statistics) report.Section {
	var rows []rateRow
	for i, name := range meter.SizeNames {
		rows = append(rows, rateRow{names: []string{name}, rate: s.rate(w.sizes[i])})
	}
	return report.Section{Title: "Sizes", Figures: []report.Figure{rateFigure("Packets by size in bytes, from the Ethernet header on", barsOfPackets, []string{"Bytes"}, rows)}}
}
