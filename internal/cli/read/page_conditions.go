package read

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/report"
)

// conditionSection says how the packets were captured, as far as the files tell.
func (w *pageWriter) conditionSection(sources []capture.Source) report.Section {
	s := report.Section{Title: "Conditions of the capture"}
	f := report.Figure{Caption: "Interfaces in the files", Columns: report.Texts("Interface", "File", "Hook", "Program", "Filter", "Bytes kept")}
	const most = 200
	for _, src := range sources[:min(len(sources), most)] {
		kept := "all"
		if src.SnapLen > 0 {
			kept = report.Grouped(uint64(src.SnapLen))
		}
		f.Rows = append(f.Rows, report.Row{Cells: []string{
			src.Label(), filepath.Base(src.File), cmp.Or(hookKey(&src), "-"), cmp.Or(src.Target.Name, "-"), cmp.Or(src.Filter, "-"), kept,
		}})
	}
	if f.Rows != nil {
		s.Figures = append(s.Figures, f)
	}
	said := report.Figure{Caption: "What the files say of the capture", Columns: report.Texts("Subject", "As the file has it")}
	for _, comment := range w.comments {
		for line := range strings.Lines(comment) {
			subject, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				subject, text = "remark", subject
			}
			said.Rows = append(said.Rows, report.Row{Cells: []string{subject, text}})
		}
	}
	if said.Rows != nil {
		s.Figures = append(s.Figures, said)
	}
	s.Text = append(s.Text, "Made by xdpcap "+frame.Version()+" read --report. Times are those of the clock that stamped the packets. Estimates contain the true number 19 times of 20.")
	return s
}
