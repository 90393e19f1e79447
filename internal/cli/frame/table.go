package frame

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/internal/escape"
)

// MaxColumns is how wide a counter command's output may be.
const MaxColumns = 100

// A Table is aligned text. The first column is aligned to the left, the others to the right, and
// two spaces are in between.
type Table struct {
	Left int // how many columns after the first are aligned to the left, too
	rows [][]string
}

// Add adds a row. Characters that a terminal would not print are escaped.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = escape.Text(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// Width is how many columns the table takes.
func (t *Table) Width() (columns int) {
	for i, n := range t.widths() {
		if columns += n; i > 0 {
			columns += 2
		}
	}
	return columns
}

func (t *Table) widths() (widths []int) {
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Write prints the table.
func (t *Table) Write(w io.Writer) {
	widths := t.widths()
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			if i > t.Left {
				fmt.Fprintf(&line, "%*s", widths[i], cell)
			} else {
				fmt.Fprintf(&line, "%-*s", widths[i], cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
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

// A Screen is a terminal on which blocks replace each other.
type Screen struct {
	Size   func() (columns, rows int, err error)
	IsOurs func() bool // see Terminal; nil: always
	drawn  bool
}

// NewScreen is nil where f is not a terminal.
func NewScreen(f *os.File) *Screen {
	t := NewTerminal(f)
	if t == nil {
		return nil
	}
	return &Screen{Size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }, IsOurs: t.IsOurs}
}

// Redraw returns a block with the escape sequences that replace the block before it. It is cut to
// the size of the screen, because a line that wraps or scrolls would move the next block. In the
// background it is nothing, because the screen is the shell's then.
func (s *Screen) Redraw(block []byte) []byte {
	if s.IsOurs != nil && !s.IsOurs() {
		s.drawn = false
		return nil
	}
	const home, clear, clearRestOfLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	columns, rows, err := s.Size()
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
		b.WriteString(Shorten(line, columns) + clearRestOfLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.Bytes()
}
