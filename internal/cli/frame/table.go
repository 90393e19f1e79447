package frame

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/message"
)

// A Table is aligned text. Its first columns have names and are aligned to the left; the others
// have numbers and are aligned to the right. Two spaces are in between.
type Table struct {
	Left      int   // how many columns besides the first are aligned to the left
	Addresses []int // numbers of columns on the left whose cells are cut in the middle
	rows      []row
}

// A row is a line of a Table.
type row struct {
	cells []string
	lost  bool
}

// Add adds a row. A single cell is a line that has no influence on the columns. Characters that a
// terminal would not print are escaped.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = message.Escape(cells[i])
	}
	t.rows = append(t.rows, row{cells: cells})
}

// AddLost adds a row that is red if its packets are lost and the page has colours.
func (t *Table) AddLost(lost bool, cells ...string) {
	t.Add(cells...)
	t.rows[len(t.rows)-1].lost = lost
}

const (
	columnGap = "  "
	leastName = 6 // lower bound for the columns of a name that is cut
)

// widths returns the widths of the columns, such that a line has at most most columns; 0 = any
// number. Numbers are never cut, and the widest names are cut first.
func (t *Table) widths(most int) (widths []int) {
	for _, row := range t.rows {
		if len(row.cells) == 1 {
			continue
		}
		for i, cell := range row.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if most == 0 {
		return widths
	}
	tooWide := len(columnGap)*(len(widths)-1) - most
	for _, n := range widths {
		tooWide += n
	}
	names := widths[:min(t.Left+1, len(widths))]
	for ; tooWide > 0 && slices.Max(names) > leastName; tooWide-- {
		names[slices.Index(names, slices.Max(names))]--
	}
	return widths
}

// Write prints the table on the page PageOf(w).
func (t *Table) Write(w io.Writer) {
	p := PageOf(w)
	widths := t.widths(p.Columns)
	for _, row := range t.rows {
		if len(row.cells) == 1 {
			fmt.Fprintln(p, row.cells[0])
			continue
		}
		var line strings.Builder
		for i, cell := range row.cells {
			if i > 0 {
				line.WriteString(columnGap)
			}
			switch {
			case i > t.Left:
				fmt.Fprintf(&line, "%*s", widths[i], cell)
				continue
			case slices.Contains(t.Addresses, i):
				cell = ShortenMiddle(cell, widths[i])
			}
			fmt.Fprintf(&line, "%-*s", widths[i], Shorten(cell, widths[i]))
		}
		text := strings.TrimRight(line.String(), " ")
		if row.lost {
			text = p.Red(text)
		}
		fmt.Fprintln(p, text)
	}
}

// Shorten cuts the end off a line or cell that is too long, and puts … there.
func Shorten(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	return string([]rune(s)[:columns-1]) + "…"
}
