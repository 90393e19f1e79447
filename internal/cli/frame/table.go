package frame

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/internal/escape"
)

// A Table is aligned text. The first column is aligned to the left, the others to the right, and
// two spaces are in between. The columns on the left have names, the others numbers.
type Table struct {
	Left      int   // how many columns after the first are aligned to the left, too
	Addresses []int // which of these are cut in the middle where they have no room
	rows      []row
}

// A row is a line of a Table.
type row struct {
	cells []string
	lost  bool
}

// Add adds a row, or with a single cell a line by itself. Characters that a terminal would not
// print are escaped.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = escape.Text(cells[i])
	}
	t.rows = append(t.rows, row{cells: cells})
}

// AddLost adds a row whose packets are lost, if that is so: it is red where the page has colours.
func (t *Table) AddLost(lost bool, cells ...string) {
	t.Add(cells...)
	t.rows[len(t.rows)-1].lost = lost
}

const (
	columnGap = "  "
	leastName = 6 // columns of a name that is cut
)

// widths are those of the columns where a line has at most this many; 0 = any number. Numbers are
// never cut, the widest names are cut first.
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

// Write prints the table on a Page, or on something else as PageOf.
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

// Shorten cuts a line or cell that is too long, and ends it with … then.
func Shorten(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	return string([]rune(s)[:columns-1]) + "…"
}
