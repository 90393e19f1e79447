package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/xdpcap/xdpcap/internal/report"
)

// outcomes are the outcomes of packets in an account. The terms are those whose sum is seen; each
// of the others is a part of a term, or was not seen.
var outcomes = []struct {
	name, title    string
	isLoss, isTerm bool
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

// addAccount adds the account of a capture by source. The metrics of a counter have none.
func (v *view) addAccount() {
	seen := v.pop("xdpcap_seen_packets_total")
	if seen == nil {
		return
	}
	total, rate := seen.totals()
	v.addFact("seen", whole(total), false)
	v.addFact("seen per second", report.Rate(rate), false)
	table := seen.table("The account by source, in packets", "Seen", "Seen/s")
	for _, s := range seen.series {
		table.Rows = append(table.Rows, report.Row{Cells: s.cells(whole(s.value), report.Rate(s.rate))})
	}
	chart := report.Chart{Title: "Packets by their outcome, of all sources"}
	var terms []string
	pending := total
	for _, o := range outcomes {
		f := v.pop("xdpcap_" + o.name + "_packets_total")
		if f == nil {
			continue
		}
		table.Columns = append(table.Columns, report.Numbers(o.title)...)
		for i, s := range f.series[:min(len(f.series), len(table.Rows))] {
			row := &table.Rows[i]
			row.Cells = append(row.Cells, whole(s.value))
			row.Bad = row.Bad || o.isLoss && s.value > 0
		}
		sum, _ := f.totals()
		bad := o.isLoss && sum > 0
		if o.isTerm {
			terms = append(terms, whole(sum)+" "+strings.ToLower(o.title))
			pending -= sum
			chart.Marks = append(chart.Marks, report.NewMark(o.title, count(sum), bad))
		}
		if o.name == "lost" || o.name == "captured" || bad {
			v.addFact(strings.ToLower(o.title), whole(sum), bad)
		}
	}
	if pending > 0 {
		terms = append(terms, whole(pending)+" on their way to the output")
	}
	if f := v.pop("xdpcap_captured_bytes_total"); f != nil {
		bytes, rate := f.totals()
		v.addFact("captured bytes", whole(bytes), false)
		v.addFact("captured bit/s", report.Rate(8*rate), false)
	}
	table.Charts = []report.Chart{chart}
	equation := whole(total) + " seen = " + strings.Join(terms, " + ")
	v.addSection(report.Section{Title: "Account", Text: []string{equation}}, table)
}

// maxRows is the maximum number of rows of a table: /metrics has all.
const maxRows = 50

// maxMarks is the maximum number of a chart's marks.
const maxMarks = 12

// addPackets adds each family that counts packets, with its bytes if it has them.
func (v *view) addPackets() {
	for _, name := range slices.Clone(v.names) {
		stem, ok := strings.CutSuffix(name, "_packets_total")
		if !ok {
			continue
		}
		f, bytes := v.pop(name), v.pop(stem+"_bytes_total")
		table := f.table(f.help, "Packets", "Packets/s")
		if bytes != nil {
			table.Columns = append(table.Columns, report.Numbers("Bytes", "Bit/s")...)
		}
		type line struct {
			report.Row
			report.Mark
		}
		var lines []line
		for i, s := range f.series {
			cells := s.cells(whole(s.value), report.Rate(s.rate))
			if bytes != nil && i < len(bytes.series) {
				cells = append(cells, whole(bytes.series[i].value), report.Rate(8*bytes.series[i].rate))
			}
			bad := s.value > 0 && (isLoss(name) || slices.Contains(s.labels, "drop") || slices.Contains(s.labels, "aborted"))
			lines = append(lines, line{report.Row{Cells: cells, Bad: bad}, report.NewMark(joined(s.labels), count(s.value), bad)})
		}
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.Value, a.Value) })
		chart := report.Chart{Title: "Packets"}
		for i, l := range lines[:min(len(lines), maxRows)] {
			if table.Rows = append(table.Rows, l.Row); i < maxMarks && l.Value > 0 {
				chart.Marks = append(chart.Marks, l.Mark)
			}
		}
		section := report.Section{Title: f.help}
		if more := len(lines) - maxRows; more > 0 {
			section.Text = []string{fmt.Sprintf("The %d largest; %d more are at /metrics.", maxRows, more)}
		}
		if chart.Marks != nil {
			table.Charts = []report.Chart{chart}
		}
		if len(v.page.Facts) == 0 {
			sum, rate := f.totals()
			v.addFact("packets", whole(sum), sum > 0 && isLoss(name))
			v.addFact("packets/s", report.Rate(rate), false)
		}
		v.addSection(section, table)
	}
}

// addHistograms adds each family of run times.
func (v *view) addHistograms() {
	for _, name := range slices.Clone(v.names) {
		f := v.families[name]
		if len(f.series) == 0 || f.series[0].histogram == nil {
			continue
		}
		v.pop(name)
		table := f.table(f.help, "Runs", "Mean", "Median, at most", "99 %, at most")
		chart := report.Chart{Title: "Runs by their time, all together", Columns: true}
		for _, b := range f.series[0].histogram.Bucket {
			chart.Marks = append(chart.Marks, report.Mark{Label: "up to " + bound(b)})
		}
		for _, s := range f.series {
			runs := s.histogram.GetSampleCount()
			mean := time.Duration(s.histogram.GetSampleSum() / float64(max(runs, 1)) * 1e9)
			table.Rows = append(table.Rows, report.Row{Cells: s.cells(whole(float64(runs)), mean.String(), quantile(s.histogram, 0.5), quantile(s.histogram, 0.99))})
			below := uint64(0)
			for i, b := range s.histogram.Bucket[:min(len(s.histogram.Bucket), len(chart.Marks))] {
				mark := &chart.Marks[i]
				mark.Value += float64(b.GetCumulativeCount() - below)
				mark.Text = whole(mark.Value)
				below = b.GetCumulativeCount()
			}
		}
		table.Charts = []report.Chart{chart}
		v.addSection(report.Section{Title: f.help}, table)
	}
}

// addOthers adds the families that no other section shows.
func (v *view) addOthers() {
	table := report.Figure{Caption: "Other numbers", Columns: append(report.Texts("Number", "Of"), report.Numbers("Value", "per second")...)}
	for _, name := range v.names {
		f := v.families[name]
		for _, s := range f.series[:min(len(f.series), maxRows-len(table.Rows))] {
			cells := []string{f.help, joined(s.labels), number(s.value), report.Rate(s.rate)}
			table.Rows = append(table.Rows, report.Row{Cells: cells, Bad: isLoss(name) && s.value > 0})
		}
	}
	if table.Rows != nil {
		v.addSection(report.Section{Title: "Other numbers"}, table)
	}
}

func (v *view) addFact(name, value string, bad bool) {
	v.page.Facts = append(v.page.Facts, report.Fact{Name: name, Value: value, Bad: bad})
}

func (v *view) addSection(s report.Section, table report.Figure) {
	s.Figures = []report.Figure{table}
	v.page.Sections = append(v.page.Sections, s)
}

// table returns an empty table of a family: a column for each label, and columns of numbers.
func (f *family) table(caption string, numbers ...string) report.Figure {
	return report.Figure{Caption: caption, Columns: append(report.Texts(titles(f.labels)...), report.Numbers(numbers...)...)}
}

// cells returns a row of a table of the family: the labels, and numbers.
func (s *series) cells(numbers ...string) []string { return append(slices.Clone(s.labels), numbers...) }

// isLoss reports whether a metric counts losses, by its name.
func isLoss(name string) bool {
	return slices.ContainsFunc([]string{"lost", "drops", "not_taken", "missed", "refused", "evict"}, func(word string) bool { return strings.Contains(name, word) })
}

// bound returns the largest time in a bucket.
func bound(b *dto.Bucket) string { return time.Duration(b.GetUpperBound()*1e9 + 0.5).String() }

// quantile returns the bound that a share q (0 to 1) of the runs does not exceed.
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

// joined returns the values of labels as one text.
func joined(labels []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == "" }), " ")
}

// titles returns the titles of columns for labels: "Program id" for program_id.
func titles(labels []string) (all []string) {
	for _, l := range labels {
		all = append(all, strings.ToUpper(l[:1])+strings.ReplaceAll(l[1:], "_", " "))
	}
	return all
}

// count converts the value of a counter.
func count(x float64) uint64 { return uint64(max(x, 0)) }

func whole(x float64) string { return report.Grouped(count(x)) }

func number(x float64) string {
	if x == float64(count(x)) {
		return whole(x)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}
