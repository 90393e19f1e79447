// Package report draws figures, which are charts with their tables, as a page of HTML. The page is
// one file: it loads nothing else, and works without a network.
package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/xdpcap/xdpcap/internal/message"
)

// A Page is a title and sections. All texts may come from a file or a client: they are escaped.
type Page struct {
	Title    string
	Lead     []string // paragraphs below the title
	Facts    []Fact   // the most important numbers
	Sections []Section
	Live     bool // the page reloads, until its reader pauses it
}

// A Fact is a number in large type, with its name.
type Fact struct {
	Name, Value string
	Bad         bool // red, for losses
}

// A Section has a heading, paragraphs and figures.
type Section struct {
	Title   string
	Text    []string
	Figures []Figure
}

// AddFigure adds a figure, unless its table has no rows.
func (s *Section) AddFigure(f Figure) {
	if len(f.Rows) > 0 {
		s.Figures = append(s.Figures, f)
	}
}

// A Figure is a table and the charts of its numbers. Each row has a cell for each column.
type Figure struct {
	Caption string
	Columns []Column
	Rows    []Row
	Charts  []Chart
}

// A Column is the title of a column, whose cells are numbers or texts.
type Column struct {
	Title  string
	Number bool
}

// Texts returns columns of texts.
func Texts(titles ...string) []Column { return columns(false, titles) }

// Numbers returns columns of numbers.
func Numbers(titles ...string) []Column { return columns(true, titles) }

func columns(number bool, titles []string) (all []Column) {
	for _, title := range titles {
		all = append(all, Column{title, number})
	}
	return all
}

// A Row is a line of a table.
type Row struct {
	Cells []string
	Bad   bool // red, for losses
}

// The numbers of rows above which a table is folded at first: less if a chart of columns, which is
// wide, shows the same above it.
const foldedRows, foldedRowsBelowColumns = 24, 12

// IsLong reports whether the table is folded at first.
func (f *Figure) IsLong() bool {
	return len(f.Rows) > foldedRows || len(f.Rows) > foldedRowsBelowColumns && f.hasColumnChart()
}

// IsWide reports whether the chart or the table needs the width of the page, so that the table is
// below the chart.
func (f *Figure) IsWide() bool { return len(f.Charts) == 0 || f.hasColumnChart() || len(f.Columns) > 6 }

// hasColumnChart reports whether the first chart has columns instead of bars.
func (f *Figure) hasColumnChart() bool { return len(f.Charts) > 0 && f.Charts[0].Columns }

// Number reports whether the cells of a column are numbers.
func (f *Figure) Number(column int) bool { return column < len(f.Columns) && f.Columns[column].Number }

var (
	//go:embed page.html
	markup string
	//go:embed style.css
	style string
	//go:embed live.js
	script string

	// text escapes unprintable characters, which could change the direction of the text around
	// them. The template escapes the characters of HTML.
	page = template.Must(template.New("page").Funcs(template.FuncMap{"text": message.Escape}).Parse(markup))
)

// Policy is the Content-Security-Policy of every page: only its own style and script, and requests
// only to its server, for reloading.
var Policy = "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script) +
	"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Write writes the page. It first numbers the charts, because the ID of a chart must be unique in
// the page.
func (p *Page) Write(w io.Writer) error {
	charts := 0
	for i := range p.Sections {
		for j := range p.Sections[i].Figures {
			all := p.Sections[i].Figures[j].Charts
			for k := range all {
				charts++
				all[k].number = charts
			}
		}
	}
	return page.Execute(w, struct {
		*Page
		Policy string
		Style  template.CSS
		Script template.JS
	}{p, Policy, template.CSS(style), template.JS(script)})
}
