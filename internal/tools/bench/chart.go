package main

import (
	"fmt"
	"html/template"
	"os"
	"slices"
	"strings"
)

// The chart's measures, in pixels.
const (
	labelWidth  = 172
	columnWidth = 172
	barWidth    = 122 // of 100 %
	rowHeight   = 18
	headHeight  = 52
)

// chartSizes are the frame sizes, in bytes on the wire, of the chart's columns, if they were
// measured.
var chartSizes = []int{64, 512, 1518, 9000}

// A chart has a part for each question that it answers.
type chart struct {
	Width, Height int
	Machine       string
	Parts         []chartPart
}

type chartPart struct {
	Title   string
	Y       int
	Columns []chartColumn
	Labels  []chartLabel
	Bars    []chartBar
}

type chartColumn struct {
	X, Y, Bottom int
	End          int // where 100 % is
	Title        string
}

type chartLabel struct {
	Y    int
	Text string
}

type chartBar struct {
	X, Y, Width, TextX, TextY int
	Class, Text               string
}

// A chartRow is a bar in each column.
type chartRow struct {
	name, class string
}

// newChart lays the chart out.
func (r *Report) newChart() chart {
	without := []chartRow{{passName, "limit"}, {copyDropName, "limit"}}
	beside := []chartRow{{copyPassName, "limit"}}
	var sink, own []chartRow
	for _, transport := range transports {
		sink = append(sink, chartRow{sinkName(transport), transport})
		own = append(own, chartRow{ownName(transport), transport})
	}
	var rest []chartRow
	sink = append(sink, chartRow{pollName, ring})
	for _, name := range otherNames {
		rest = append(rest, chartRow{name, "other"})
	}
	c := chart{Width: labelWidth + len(chartSizes)*columnWidth, Height: 8, Machine: r.Machine.String()}
	c.add(r, "Captured without loss, of what XDP_DROP takes without a capture",
		concat(without, sink, own, rest), func(row Row) float64 { return row.OfDrop })
	c.add(r, "Traffic's rate beside the capture under XDP_PASS, of its rate without",
		concat(beside, own, rest), func(row Row) float64 { return row.Keeps })
	c.Height += 24
	return c
}

func concat(parts ...[]chartRow) (all []chartRow) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// add adds a part below the others: for each row, the result of figure for each frame size.
func (c *chart) add(r *Report, title string, rows []chartRow, figure func(Row) float64) {
	p := chartPart{Title: title, Y: c.Height + 18}
	top := c.Height + headHeight
	bottom := top + len(rows)*rowHeight
	for i, row := range rows {
		p.Labels = append(p.Labels, chartLabel{Y: top + i*rowHeight + 13, Text: row.name})
	}
	column := 0
	for _, s := range r.Frames {
		if !slices.Contains(chartSizes, s.Bytes) {
			continue
		}
		x := labelWidth + column*columnWidth
		p.Columns = append(p.Columns, chartColumn{
			X: x, Y: top - 6, Bottom: bottom, End: x + barWidth, Title: fmt.Sprintf("%d bytes", s.Bytes),
		})
		for i, row := range rows {
			value := figure(s.row(row.name))
			width := int(barWidth*min(value, 1) + 0.5)
			y := top + i*rowHeight
			p.Bars = append(p.Bars, chartBar{
				X: x, Y: y + 3, Width: width, TextX: x + width + 4, TextY: y + 13,
				Class: row.class, Text: percent(value),
			})
		}
		column++
	}
	c.Parts = append(c.Parts, p)
	c.Height = bottom + 12
}

// The colours follow what the reader's browser prefers, light or dark.
var chartTemplate = template.Must(template.New("chart").Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}" role="img">
<title>xdpcap beside other tools: rates without loss, and what the traffic keeps</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 13px }
.small { font-size: 11px; fill: #57606a }
line { stroke: #d0d7de }
.ring { fill: #0969da } .perf { fill: #80b3ec } .other { fill: #d4a72c } .limit { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 } line { stroke: #3d444d }
.ring { fill: #4493f8 } .perf { fill: #2a5a9e } .other { fill: #bb8009 } .limit { fill: #656c76 }
}
</style>
{{range .Parts}}<text class="title" x="0" y="{{.Y}}">{{.Title}}</text>
{{range .Columns}}<text class="small" x="{{.X}}" y="{{.Y}}">{{.Title}}</text>
<line x1="{{.X}}" y1="{{.Y}}" x2="{{.X}}" y2="{{.Bottom}}"/><line x1="{{.End}}" y1="{{.Y}}" x2="{{.End}}" y2="{{.Bottom}}"/>
{{end}}{{range .Labels}}<text x="0" y="{{.Y}}">{{.Text}}</text>
{{end}}{{range .Bars}}<rect class="{{.Class}}" x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="12"/><text class="small" x="{{.TextX}}" y="{{.TextY}}">{{.Text}}</text>
{{end}}{{end}}<text class="small" x="0" y="{{.Bottom}}">{{.Machine}}. The right-hand line is 100 %; a dash: no figure, the reason is in the JSON.</text>
</svg>
`))

// Bottom is where the last line of text is.
func (c chart) Bottom() int { return c.Height - 8 }

// chart returns the chart as SVG.
func (r *Report) chart() (string, error) {
	var b strings.Builder
	err := chartTemplate.Execute(&b, r.newChart())
	return b.String(), err
}

func (r *Report) writeChart(path string) error {
	text, err := r.chart()
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
