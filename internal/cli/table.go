package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/internal/escape"
	"github.com/xdpcap/xdpcap/internal/meter"
)

// maxColumns is how wide a counter command's output may be.
const maxColumns = 100

// A table is aligned text. The first column is aligned to the left, the others to the right, and
// two spaces are in between.
type table struct {
	left int // how many columns after the first are aligned to the left, too
	rows [][]string
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = escape.Text(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			if i > t.left {
				fmt.Fprintf(&line, "%*s", widths[i], cell)
			} else {
				fmt.Fprintf(&line, "%-*s", widths[i], cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// block is the table of one interval under its title.
func (c *counters[S]) block(when string, i meter.Interval[S]) []byte {
	var b bytes.Buffer
	over := fmt.Sprintf("over %.3f s", i.Took.Seconds())
	if i.Took != i.Elapsed {
		over = fmt.Sprintf("rates %s, totals over %.3f s", over, i.Elapsed.Seconds())
	}
	fmt.Fprintln(&b, shorten(escape.Text(fmt.Sprintf("%s  %v, %s", when, c, over)), maxColumns))
	c.newReport(i).writeTable(&b)
	return b.Bytes()
}

// shorten cuts a line or cell that is too long, and ends it with … then.
func shorten(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	return string([]rune(s)[:columns-1]) + "…"
}

// A screen is a terminal on which blocks replace each other.
type screen struct {
	size  func() (columns, rows int, err error)
	drawn bool
}

// newScreen is nil where f is not a terminal.
func newScreen(f *os.File) *screen {
	if !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &screen{size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }}
}

// redraw is a block with the escape sequences that put it into the place of the one before. It is
// cut to the screen, because a line that wraps or scrolls would move the place of the next block.
func (s *screen) redraw(block []byte) []byte {
	const home, clear, clearRestOfLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	columns, rows, err := s.size()
	if err != nil || columns < 1 || rows < 2 {
		columns, rows = 80, 24
	}
	lines := strings.Split(strings.TrimSuffix(string(block), "\n"), "\n")
	if most := rows - 1; len(lines) > most { // the cursor stands in the last line
		more := fmt.Sprintf("… %d more lines: a larger window or a pipe shows them", len(lines)-most+1)
		lines = append(lines[:most-1:most-1], more)
	}
	var b bytes.Buffer
	b.WriteString(home)
	if !s.drawn {
		b.WriteString(clear)
		s.drawn = true
	}
	for _, line := range lines {
		b.WriteString(shorten(line, columns) + clearRestOfLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.Bytes()
}
