package main

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A stretch are neighbouring characters of a line that look alike.
type stretch struct {
	text  string
	style style
}

// A style is how a terminal shows characters.
type style struct {
	color                int // of the eight of a terminal; -1 = the default
	bold, faint, reverse bool
}

var rendition = regexp.MustCompile("\x1b\\[([0-9;]*)m|\x1b\\([0-9A-Za-z]|[\x0e\x0f]")

// stretches takes a line of a terminal apart, which has SGR sequences and no others. The style goes
// on into the next line.
func stretches(line string, s *style) (all []stretch) {
	for line != "" {
		at := rendition.FindStringSubmatchIndex(line)
		if at == nil {
			at = []int{len(line), len(line), -1, -1}
		}
		if at[0] > 0 {
			all = append(all, stretch{line[:at[0]], *s})
		}
		if at[2] >= 0 {
			s.apply(line[at[2]:at[3]])
		}
		line = line[at[1]:]
	}
	return all
}

// apply changes the style by the numbers of an SGR sequence.
func (s *style) apply(numbers string) {
	for text := range strings.SplitSeq(numbers, ";") {
		switch n, _ := strconv.Atoi(text); {
		case n == 0:
			*s = style{color: -1}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 7:
			s.reverse = true
		case n == 22:
			s.bold, s.faint = false, false
		case n == 27:
			s.reverse = false
		case n >= 30 && n <= 37:
			s.color = n - 30
		case n >= 90 && n <= 97:
			s.color = n - 90
		case n == 39:
			s.color = -1
		}
	}
}

// Measures of the picture, in pixels.
const (
	cellWidth, cellHeight = 8.4, 18
	margin                = 14
)

// colors are those of a terminal.
var colors = []string{"#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3"}

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
<title>%[3]s</title>
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3; white-space: pre }
</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#0d1117"/>
`

// svg draws lines of a terminal of so many columns.
func svg(title string, lines []string, columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, int(float64(columns)*cellWidth)+2*margin, len(lines)*cellHeight+2*margin, html.EscapeString(title))
	s := style{color: -1}
	for y, line := range lines {
		x := 0
		for _, r := range stretches(line, &s) {
			n := utf8.RuneCountInString(r.text)
			r.draw(&b, margin+float64(x)*cellWidth, margin+y*cellHeight, float64(n)*cellWidth)
			x += n
		}
	}
	return b.String() + "</svg>\n"
}

// draw draws a stretch of characters, which are as wide as the cells whatever the font is.
func (r *stretch) draw(b *strings.Builder, x float64, y int, width float64) {
	color := colors[7]
	if r.style.color >= 0 {
		color = colors[r.style.color]
	}
	if r.style.reverse {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, width, cellHeight, color)
		color = "#0d1117"
	}
	if strings.TrimSpace(r.text) == "" {
		return
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" xml:space="preserve"`, x, y+cellHeight-4, width)
	if color != colors[7] {
		fmt.Fprintf(b, ` style="fill: %s"`, color)
	}
	if r.style.bold {
		b.WriteString(` font-weight="bold"`)
	}
	if r.style.faint {
		b.WriteString(` opacity="0.65"`)
	}
	fmt.Fprintf(b, ">%s</text>\n", html.EscapeString(r.text))
}
