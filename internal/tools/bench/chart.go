package main

import (
	"fmt"
	"html"
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

// chartSizes are the frame sizes of the chart's columns.
var chartSizes = []int{shortSize, middleSize, longSize, jumboSize}

// A chartRow is a bar in each column.
type chartRow struct{ name, class string }

// The colours follow the setting of the reader's browser, light or dark.
const chartHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
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
`

// chart returns the chart as SVG. It has a part for each question that it answers.
func (r *results) chart() string {
	without := []chartRow{{passName, "limit"}, {copyDropName, "limit"},
		{sinkName(ring), ring}, {sinkName(perf), perf}, {lowprecSinkName, ring}}
	own := []chartRow{{ownName(ring), ring}, {ownName(perf), perf}}
	for _, name := range otherNames {
		own = append(own, chartRow{name, "other"})
	}
	var parts strings.Builder
	height := 8
	r.chartPart(&parts, &height, "Captured without loss, of what XDP_DROP takes without a capture", append(without, own...),
		func(name string, size int) float64 { return r.figure(lossless(name, size), unitOfDrop) })
	r.chartPart(&parts, &height, "Traffic&#39;s rate beside the capture under XDP_PASS, of its rate without",
		append([]chartRow{{copyPassName, "limit"}}, own...),
		func(name string, size int) float64 { return r.figure(unpaced(name, size), unitKeeps) })
	height += 24
	return fmt.Sprintf(chartHead, labelWidth+len(chartSizes)*columnWidth, height) + parts.String() +
		fmt.Sprintf(`<text class="small" x="0" y="%d">%s. The right-hand line is 100 %%; a dash: no figure, `+
			"speed.txt says why.</text>\n</svg>\n", height-8, html.EscapeString(r.machine()))
}

// chartPart draws a part below the others: for each row, the figure for each frame size.
func (r *results) chartPart(out *strings.Builder, height *int, title string, rows []chartRow, figure func(name string, size int) float64) {
	top := *height + headHeight
	bottom := top + len(rows)*rowHeight
	fmt.Fprintf(out, "<text class=\"title\" x=\"0\" y=\"%d\">%s</text>\n", *height+18, title)
	for i, size := range chartSizes {
		x, y := labelWidth+i*columnWidth, top-6
		fmt.Fprintf(out, "<text class=\"small\" x=\"%d\" y=\"%d\">%d bytes</text>\n", x, y, wireSize(size))
		for _, x := range []int{x, x + barWidth} {
			fmt.Fprintf(out, `<line x1="%[1]d" y1="%[2]d" x2="%[1]d" y2="%[3]d"/>`, x, y, bottom)
		}
		fmt.Fprintln(out)
	}
	for i, row := range rows {
		fmt.Fprintf(out, "<text x=\"0\" y=\"%d\">%s</text>\n", top+i*rowHeight+13, row.name)
	}
	for i, size := range chartSizes {
		for j, row := range rows {
			x, y := labelWidth+i*columnWidth, top+j*rowHeight
			part := figure(row.name, size)
			width := int(barWidth*min(larger(0, part), 1) + 0.5)
			fmt.Fprintf(out, `<rect class="%s" x="%d" y="%d" width="%d" height="12"/>`, row.class, x, y+3, width)
			fmt.Fprintf(out, "<text class=\"small\" x=\"%d\" y=\"%d\">%s</text>\n", x+width+4, y+13, percent(part))
		}
	}
	*height = bottom + 12
}
