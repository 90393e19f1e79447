package read

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/report"
)

// A pageWriter makes the page of --report from the report of --stats and a profile of the packets.
type pageWriter struct {
	*profile
	file    *pageFile
	files   []string
	chosen  string  // the flags and the filter that chose packets; "" = all
	follows bool    // with --follow
	delays  *delays // nil without --follow
}

func (w *pageWriter) begin(in *file.Input, d capture.Description) {
	if w.follows {
		w.delays = newDelays(in, d)
	}
}

// newStatistics returns the output of --stats and --report.
func (o *Options) newStatistics() *statistics {
	s := newStatistics(o.Process.Stdout, o.json)
	if !o.stats {
		s.out = nil
	}
	if o.page.path != "" {
		s.page = &pageWriter{profile: newProfile(), file: &o.page, files: o.files, chosen: o.chosen, follows: o.follow}
	}
	return s
}

// chosenBy are the flags that choose packets, and the filter; "" = all packets are read.
func chosenBy(flags *pflag.FlagSet, filter string) string {
	var all []string
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "packet-count", "skip", "from", "to", "interface", "verdict", "reason", "slower-than", "lost", "fragments", "vlan-aware", "vxlan-port", "filter-file":
			all = append(all, frame.FlagName(f)+" "+f.Value.String())
		}
	})
	if filter != "" {
		all = append(all, "the filter "+filter)
	}
	return strings.Join(all, ", ")
}

// write writes the page.
func (w *pageWriter) write(s *statistics, r *Report) error {
	if w.delays != nil {
		w.delays.table.Close()
	}
	p := report.Page{Title: "Packets of " + w.names(), Facts: facts(r)}
	if r.From != nil {
		p.Lead = append(p.Lead, fmt.Sprintf("%s to %s (%s), %s", stamp(*r.From), stamp(*r.To), r.From.Local().Format("MST"), seconds(r.Duration)))
	}
	if w.chosen != "" {
		p.Lead = append(p.Lead, "Chosen by "+w.chosen+". The account is of all packets in the files.")
	}
	p.Sections = append(p.Sections, accountSection(r), w.timeSection(), interfaceSection(r))
	if r.Verdicts != nil {
		p.Sections = append(p.Sections, verdictSection(r))
	}
	p.Sections = append(p.Sections, w.dropSections(s, r)...)
	p.Sections = append(p.Sections, w.protocolSection(s, r), flowSection(r), w.sizeSection(s))
	p.Sections = append(p.Sections, w.runSections()...)
	if w.delays != nil {
		p.Sections = append(p.Sections, w.delaySection())
	}
	p.Sections = append(p.Sections, w.conditionSection(s.sources))
	var page bytes.Buffer
	if err := p.Write(&page); err != nil {
		return err
	}
	return w.file.write(&page)
}

// names are the names of the files, without directories: the page may be given to others.
func (w *pageWriter) names() string {
	const maxNames = 3
	var names []string
	for _, f := range w.files[:min(len(w.files), maxNames)] {
		names = append(names, filepath.Base(f))
	}
	if more := len(w.files) - maxNames; more > 0 {
		names = append(names, fmt.Sprintf("and %d more files", more))
	}
	return strings.Join(names, ", ")
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000000") }

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 6, 64) + " s" }

func facts(r *Report) []report.Fact {
	lost, passedBy := r.missing()
	all := []report.Fact{
		{Name: "packets", Value: report.Grouped(r.Total.Packets)},
		{Name: "bytes", Value: report.Grouped(r.Total.Bytes)},
		{Name: "packets/s", Value: report.Rate(r.Total.PacketsPerSecond)},
		{Name: "bit/s", Value: report.Rate(r.Total.BitsPerSecond)},
		{Name: "lost by the capture", Value: report.Grouped(lost), Bad: lost > 0},
	}
	if passedBy > 0 {
		all = append(all, report.Fact{Name: "passed by, at least", Value: report.Grouped(passedBy), Bad: true})
	}
	return all
}

// missing returns the packets that the capture has lost, and those that did not pass the hook. For
// an interface without an account it adds up the gaps.
func (r *Report) missing() (lost, passedBy uint64) {
	for _, i := range r.Interfaces {
		if i.Account == nil || i.Account.Lost == nil {
			lost += i.LostInGaps
			continue
		}
		lost, passedBy = lost+*i.Account.Lost, passedBy+i.Account.PassedBy
	}
	return lost, passedBy
}

// accountSection shows the accounts in the files.
func accountSection(r *Report) report.Section {
	s := report.Section{Title: "Account"}
	f := report.Figure{
		Caption: "The account of each interface, in packets",
		Columns: append(report.Texts("Interface"), report.Numbers("Seen", "Filtered out", "Not sampled", "Lost", "of these not taken", "Captured", "Passed by, at least")...),
	}
	var parts []report.Mark
	for _, i := range r.Interfaces {
		a := i.Account
		if a == nil || a.String() == "" {
			continue
		}
		s.Text = append(s.Text, i.label+": "+a.String())
		row := report.Row{Cells: []string{i.label}}
		for _, n := range []*uint64{a.Seen, a.FilteredOut, a.NotSampled, a.Lost, a.NotTaken, a.Captured} {
			row.Cells = append(row.Cells, orDash(n))
		}
		row.Cells, row.Bad = append(row.Cells, report.Grouped(a.PassedBy)), a.Lost != nil && *a.Lost > 0
		f.Rows = append(f.Rows, row)
		parts = append(parts, accountMarks(i.label, a)...)
	}
	if f.Rows == nil {
		s.Text = []string{"The files have no account: they do not say how many packets are missing."}
		return s
	}
	const mostLines = 8
	if len(s.Text) > mostLines {
		s.Text = nil // the table has the same numbers
	}
	s.Text = append(s.Text, "Seen is the sum of filtered out, not sampled, lost and captured. Files count invalid packets as not sampled. Packets that passed by are in none of these.")
	if len(f.Rows) <= mostLines {
		f.Charts = []report.Chart{{Title: "Packets by their outcome", Marks: parts}}
	}
	s.Figures = []report.Figure{f}
	return s
}

func accountMarks(label string, a *fileAccount) (all []report.Mark) {
	for _, n := range []struct {
		name  string
		value *uint64
		bad   bool
	}{{"captured", a.Captured, false}, {"not sampled", a.NotSampled, false}, {"filtered out", a.FilteredOut, false}, {"lost", a.Lost, true}} {
		if n.value == nil || *n.value == 0 && n.value != a.Captured {
			continue // the table has the number
		}
		all = append(all, report.NewMark(label+" "+n.name, *n.value, n.bad))
	}
	return all
}

func orDash(n *uint64) string {
	if n == nil {
		return "-"
	}
	return report.Grouped(*n)
}

// conditionSection shows how the packets were captured, by interfaces and comments in the files.
func (w *pageWriter) conditionSection(sources []capture.Source) report.Section {
	s := report.Section{Title: "Conditions of the capture"}
	f := report.Figure{Caption: "Interfaces in the files", Columns: report.Texts("Interface", "File", "Hook", "Program", "Filter", "Bytes kept")}
	const mostSources = 200
	for _, src := range sources[:min(len(sources), mostSources)] {
		kept := "all"
		if src.SnapLen > 0 {
			kept = report.Grouped(uint64(src.SnapLen))
		}
		f.Rows = append(f.Rows, report.Row{Cells: []string{
			src.Label(), filepath.Base(src.File), cmp.Or(hookKey(&src), "-"), cmp.Or(src.Target.Name, "-"), cmp.Or(src.Filter, "-"), kept,
		}})
	}
	s.AddFigure(f)
	remarks := report.Figure{Caption: "What the files say of the capture", Columns: report.Texts("Subject", "As the file has it")}
	for _, comment := range w.comments {
		for line := range strings.Lines(comment) {
			subject, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				subject, text = "remark", subject
			}
			remarks.Rows = append(remarks.Rows, report.Row{Cells: []string{subject, text}})
		}
	}
	s.AddFigure(remarks)
	s.Text = append(s.Text, "Made by xdpcap "+frame.Version()+" read --report. Times are those of the clock that stamped the packets. Estimates contain the true number 19 times of 20.")
	return s
}
