package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/xdpcap/xdpcap/internal/report"
)

// outcomes are the numbers of an account in the order of its equation, and then those that are a
// part of one of them, or of none.
var outcomes = []struct {
	name, title string
	bad, summed bool
}{
	{"filtered_out", "Filtered out", false, true},
	{"not_sampled", "Not sampled", false, true},
	{"lost", "Lost", true, true},
	{"invalid", "Invalid", true, true},
	{"captured", "Captured", false, true},
	{"undecided", "of filtered out: undecided", false, false},
	{"not_recorded", "of not sampled: not recorded", false, false},
	{"not_taken", "of lost: not taken", true, false},
	{"passed_by", "Passed by, at least", true, false},
}

// account shows the account of a capture by source; a counter has none.
func (v *view) account(p *report.Page) {
	seen := v.take("xdpcap_seen_packets_total")
	if seen == nil {
		return
	}
	total, rate := seen.totals()
	p.Facts = append(p.Facts, report.Fact{Name: "seen", Value: whole(total)}, report.Fact{Name: "seen per second", Value: report.Rate(rate)})
	f := report.Figure{Caption: "The account by source, in packets", Columns: append(report.Texts(titles(seen.labels)...), report.Numbers("Seen", "Seen/s")...)}
	for _, s := range seen.series {
		f.Rows = append(f.Rows, report.Row{Cells: append(slices.Clone(s.labels), whole(s.value), report.Rate(s.rate))})
	}
	chart := report.Chart{Title: "Packets by their outcome, of all sources"}
	equation, known := whole(total)+" seen", 0.0
	for _, o := range outcomes {
		of := v.take("xdpcap_" + o.name + "_packets_total")
		if of == nil {
			continue
		}
		f.Columns = append(f.Columns, report.Numbers(o.title)...)
		for i, s := range of.series {
			if i < len(f.Rows) {
				f.Rows[i].Cells = append(f.Rows[i].Cells, whole(s.value))
				f.Rows[i].Bad = f.Rows[i].Bad || o.bad && s.value > 0
			}
		}
		sum, _ := of.totals()
		bad := o.bad && sum > 0
		if o.summed {
			sign := " + "
			if known == 0 && !strings.Contains(equation, "=") {
				sign = " = "
			}
			equation, known = equation+sign+whole(sum)+" "+strings.ToLower(o.title), known+sum
			chart.Marks = append(chart.Marks, report.NewMark(o.title, count(sum), bad))
		}
		if o.name == "lost" || o.name == "captured" || bad {
			p.Facts = append(p.Facts, report.Fact{Name: strings.ToLower(o.title), Value: whole(sum), Bad: bad})
		}
	}
	if pending := total - known; pending > 0 {
		equation += " + " + whole(pending) + " on their way to the output"
	}
	if b := v.take("xdpcap_captured_bytes_total"); b != nil {
		sum, rate := b.totals()
		p.Facts = append(p.Facts, report.Fact{Name: "captured bytes", Value: whole(sum)}, report.Fact{Name: "captured bit/s", Value: report.Rate(8 * rate)})
	}
	f.Charts = []report.Chart{chart}
	p.Sections = append(p.Sections, report.Section{Title: "Account", Text: []string{equation}, Figures: []report.Figure{f}})
}

// maxRows is how many rows a table has at most: /metrics has all.
const maxRows = 50

// packets shows each family that counts packets, with its bytes if it has them.
func (v *view) packets(p *report.Page) {
	for _, name := range slices.Clone(v.names) {
		stem, ok := strings.CutSuffix(name, "_packets_total")
		if !ok {
			continue
		}
		f, bytes := v.take(name), v.take(stem+"_bytes_total")
		figure := report.Figure{Caption: f.help, Columns: append(report.Texts(titles(f.labels)...), report.Numbers("Packets", "Packets/s")...)}
		if bytes != nil {
			figure.Columns = append(figure.Columns, report.Numbers("Bytes", "Bit/s")...)
		}
		type line struct {
			report.Row
			report.Mark
		}
		var lines []line
		for i, s := range f.series {
			cells := append(slices.Clone(s.labels), whole(s.value), report.Rate(s.rate))
			if bytes != nil && i < len(bytes.series) {
				cells = append(cells, whole(bytes.series[i].value), report.Rate(8*bytes.series[i].rate))
			}
			bad := s.value > 0 && (isLoss(name) || slices.Contains(s.labels, "drop") || slices.Contains(s.labels, "aborted"))
			lines = append(lines, line{report.Row{Cells: cells, Bad: bad}, report.NewMark(joined(s.labels), count(s.value), bad)})
		}
		slices.SortStableFunc(lines, func(a, b line) int { return int(min(max(b.Value-a.Value, -1), 1)) })
		chart := report.Chart{Title: "Packets"}
		for i, l := range lines[:min(len(lines), maxRows)] {
			if figure.Rows = append(figure.Rows, l.Row); i < 12 && l.Value > 0 {
				chart.Marks = append(chart.Marks, l.Mark)
			}
		}
		section := report.Section{Title: f.help}
		if more := len(lines) - maxRows; more > 0 {
			section.Text = []string{fmt.Sprintf("The %d largest; %d more are at /metrics.", maxRows, more)}
		}
		if chart.Marks != nil {
			figure.Charts = []report.Chart{chart}
		}
		if section.Figures = []report.Figure{figure}; len(p.Facts) == 0 {
			sum, rate := f.totals()
			p.Facts = append(p.Facts, report.Fact{Name: "packets", Value: whole(sum), Bad: sum > 0 && isLoss(name)}, report.Fact{Name: "packets/s", Value: report.Rate(rate)})
		}
		p.Sections = append(p.Sections, section)
	}
}

// isLoss reports whether a metric counts what got lost.
func isLoss(name string) bool {
	return slices.ContainsFunc([]string{"lost", "drops", "not_taken", "missed", "refused", "evict"}, func(word string) bool { return strings.Contains(name, word) })
}

// histograms shows run times.
func (v *view) histograms(p *report.Page) {
	for _, name := range slices.Clone(v.names) {
		f := v.families[name]
		if len(f.series) == 0 || f.series[0].histogram == nil {
			continue
		}
		v.take(name)
		figure := report.Figure{Caption: f.help, Columns: append(report.Texts(titles(f.labels)...), report.Numbers("Runs", "Mean", "Median, at most", "99 %, at most")...)}
		chart := report.Chart{Title: "Runs by their time, all together", Columns: true}
		for i, s := range f.series {
			h := s.histogram
			mean := time.Duration(0)
			if n := h.GetSampleCount(); n > 0 {
				mean = time.Duration(h.GetSampleSum() / float64(n) * 1e9)
			}
			figure.Rows = append(figure.Rows, report.Row{Cells: append(slices.Clone(s.labels), whole(float64(h.GetSampleCount())), mean.String(), quantile(h, 0.5), quantile(h, 0.99))})
			below := uint64(0)
			for j, b := range h.Bucket {
				if i == 0 {
					chart.Marks = append(chart.Marks, report.Mark{Label: "up to " + bound(b)})
				}
				if j < len(chart.Marks) {
					chart.Marks[j].Value += float64(b.GetCumulativeCount() - below)
					chart.Marks[j].Text = whole(chart.Marks[j].Value)
				}
				below = b.GetCumulativeCount()
			}
		}
		figure.Charts = []report.Chart{chart}
		p.Sections = append(p.Sections, report.Section{Title: f.help, Figures: []report.Figure{figure}})
	}
}

// bound is the end of a bucket, which Prometheus includes.
func bound(b *dto.Bucket) string { return time.Duration(b.GetUpperBound()*1e9 + 0.5).String() }

// quantile is the bound below which a share of the runs are.
func quantile(h *dto.Histogram, q float64) string {
	if h.GetSampleCount() == 0 {
		return "-"
	}
	for _, b := range h.Bucket {
		if float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
			return bound(b)
		}
	}
	return "longer"
}

// others shows what is left.
func (v *view) others(p *report.Page) {
	f := report.Figure{Caption: "Other numbers", Columns: append(report.Texts("Number", "Of"), report.Numbers("Value", "per second")...)}
	for _, name := range v.names {
		of := v.families[name]
		for _, s := range of.series {
			if len(f.Rows) < maxRows {
				f.Rows = append(f.Rows, report.Row{Cells: []string{of.help, joined(s.labels), number(s.value), report.Rate(s.rate)}, Bad: isLoss(name) && s.value > 0})
			}
		}
	}
	if f.Rows != nil {
		p.Sections = append(p.Sections, report.Section{Title: "Other numbers", Figures: []report.Figure{f}})
	}
}

// joined are the values of labels in one text.
func joined(labels []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == "" }), " ")
}

// titles are those of columns with labels: "program_id" is Program id.
func titles(labels []string) (all []string) {
	for _, l := range labels {
		all = append(all, strings.ToUpper(l[:1])+strings.ReplaceAll(l[1:], "_", " "))
	}
	return all
}

// count is the number that a counter has.
func count(x float64) uint64 { return uint64(max(x, 0)) }

func whole(x float64) string { return report.Grouped(count(x)) }

func number(x float64) string {
	if x == float64(count(x)) {
		return whole(x)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}
