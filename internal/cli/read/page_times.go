package read

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/report"
)

// timeSection shows packets, bytes and losses over time.
func (w *pageWriter) timeSection() report.Section {
	s := report.Section{Title: "Over time"}
	if w.steps == nil {
		s.Text = []string{"No packet has a time."}
		return s
	}
	layout := "15:04:05.000000"
	if w.step >= time.Second {
		layout = "2006-01-02 15:04:05"
	}
	f := report.Figure{
		Caption: fmt.Sprintf("Packets in steps of %v", w.step),
		Columns: append(report.Texts("From"), report.Numbers("Packets", "Bytes", "Lost before them")...),
	}
	chart := func(what string) report.Chart {
		return report.Chart{Title: fmt.Sprintf("%s per %v", what, w.step), Columns: true}
	}
	packets, bytes, lost := chart("Packets"), chart("Bytes"), chart("Lost packets")
	losses := uint64(0)
	w.timeline.each(func(begin time.Time, t timeStep) {
		at := begin.Local().Format(layout)
		f.Rows = append(f.Rows, report.Row{Cells: []string{at, report.Grouped(t.Packets), report.Grouped(t.Bytes), report.Grouped(t.lost)}, Bad: t.lost > 0})
		packets.Marks = append(packets.Marks, report.NewMark(at, t.Packets, false))
		bytes.Marks = append(bytes.Marks, report.NewMark(at, t.Bytes, false))
		lost.Marks = append(lost.Marks, report.NewMark(at, t.lost, true))
		losses += t.lost
	})
	if f.Charts = []report.Chart{packets, bytes}; losses > 0 {
		f.Charts = append(f.Charts, lost)
	}
	s.Figures = []report.Figure{f}
	return s
}

// runSections show the run times of the traced program; nil = the files have none.
func (w *pageWriter) runSections() (all []report.Section) {
	var total meter.Histogram
	f := report.Figure{Caption: "Run time of the XDP program by verdict, in nanoseconds", Columns: timesColumns("Verdict", "Packets")}
	for v := range w.runs {
		h := &w.runs[v]
		if h.Count > 0 {
			f.Rows = append(f.Rows, report.Row{Cells: append([]string{capture.Verdict(v).SlotName()}, timesCells(h)...)})
			total.Add(h)
		}
	}
	if total.Count == 0 {
		return nil
	}
	f.Rows = append(f.Rows, report.Row{Cells: append([]string{"total"}, timesCells(&total)...)})
	return []report.Section{{Title: "Run times", Figures: []report.Figure{f, rangesFigure("Packets by the run time of the XDP program", &total)}}}
}

// timesColumns are the columns of a table with timesCells. The last of these titles is that of the
// first time cell, the count; the others are titles of texts.
func timesColumns(texts ...string) []report.Column {
	last := len(texts) - 1
	return append(report.Texts(texts[:last]...), report.Numbers(texts[last], "Mean", "Median", "90 %", "99 %", "Longest")...)
}

func timesCells(h *meter.Histogram) []string {
	cells := []string{report.Grouped(h.Count)}
	for _, d := range []time.Duration{h.Mean(), h.Quantile(0.5), h.Quantile(0.9), h.Quantile(0.99), h.Max} {
		cells = append(cells, report.Grouped(uint64(d.Nanoseconds())))
	}
	return cells
}

// rangesFigure shows a histogram.
func rangesFigure(caption string, h *meter.Histogram) report.Figure {
	f := report.Figure{Caption: caption, Columns: report.Numbers("At least (ns)", "Less than (ns)", "Packets")}
	chart := report.Chart{Title: caption, Columns: true}
	const mostRanges = 40
	for _, r := range h.FewRanges(mostRanges) {
		from, to := uint64(r.From.Nanoseconds()), uint64(r.To.Nanoseconds())
		f.Rows = append(f.Rows, report.Row{Cells: []string{report.Grouped(from), report.Grouped(to), report.Grouped(r.Runs)}})
		chart.Marks = append(chart.Marks, report.NewMark(fmt.Sprintf("%s to %s ns", report.Grouped(from), report.Grouped(to)), r.Runs, false))
	}
	f.Charts = []report.Chart{chart}
	return f
}

// delaySection shows the result of --follow.
func (w *pageWriter) delaySection() report.Section {
	d := w.delays
	s := report.Section{Title: "Way through the host", Text: []string{fmt.Sprintf("%s packets fit several others, and are in no delay.", report.Grouped(d.ambiguous))}}
	delays := report.Figure{Caption: "Time from the first place of a packet to a further one, in nanoseconds", Columns: timesColumns("From", "To", "Packets")}
	chart := report.Chart{Title: "Packets that went on"}
	for _, h := range d.byPackets() {
		delays.Rows = append(delays.Rows, report.Row{Cells: append([]string{h.from, h.to}, timesCells(d.hops[h])...)})
		chart.Marks = append(chart.Marks, report.NewMark(h.from+" to "+h.to, d.hops[h].Count, false))
	}
	delays.Charts = []report.Chart{chart}
	s.AddFigure(delays)
	onePlace := report.Figure{Caption: "Packets that were seen at one place alone", Columns: append(report.Texts("Place"), report.Numbers("Packets")...)}
	for _, place := range slices.Sorted(maps.Keys(d.onePlace)) {
		onePlace.Rows = append(onePlace.Rows, report.Row{Cells: []string{place, report.Grouped(d.onePlace[place])}})
	}
	s.AddFigure(onePlace)
	return s
}
