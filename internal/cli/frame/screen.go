package frame

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A Screen is a terminal on which blocks replace each other, below what is there already.
type Screen struct {
	Size   func() (columns, rows int, err error)
	IsOurs func() bool // see Terminal; nil: always
	drawn  []int       // the widths of the lines of the block that is drawn; nil = the next one begins below
}

// NewScreen is nil where f is not a terminal.
func NewScreen(f *os.File) *Screen {
	t := NewTerminal(f)
	if t == nil {
		return nil
	}
	return &Screen{Size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }, IsOurs: t.IsOurs}
}

// size is that of the window, or what a terminal has that does not tell.
func (s *Screen) size() (columns, rows int) {
	columns, rows, err := s.Size()
	if err != nil || columns < 1 || rows < 2 {
		return 80, 24
	}
	return columns, rows
}

// Page is a page as wide as the window. Its text goes into b.
func (s *Screen) Page(b *bytes.Buffer, colored bool) *Page {
	columns, _ := s.size()
	return &Page{Writer: b, Columns: columns, Colored: colored, Blocks: IsUTF8()}
}

// Sequences of a terminal that erase.
const clearRestOfLine, clearBelow = "\x1b[K", "\x1b[J"

// Redraw returns a block with the escape sequences that replace the block before it. It is cut to
// the size of the screen, because a line that wraps or scrolls would move the next block. In the
// background it is nothing, because the screen is the shell's then.
func (s *Screen) Redraw(block []byte) []byte {
	if s.IsOurs != nil && !s.IsOurs() {
		s.drawn = nil
		return nil
	}
	columns, rows := s.size()
	lines := strings.Split(strings.TrimSuffix(string(block), "\n"), "\n")
	if most := rows - 1; len(lines) > most { // the cursor stands in the last line
		more := fmt.Sprintf("… %d more lines: a larger window or a pipe shows them", len(lines)-most+1)
		lines = append(lines[:most-1:most-1], more)
	}
	b := bytes.NewBufferString(s.back(columns))
	s.drawn = nil
	for _, line := range lines {
		line = cutLine(line, columns)
		s.drawn = append(s.drawn, utf8.RuneCountInString(strings.NewReplacer(red, "", noColor, "").Replace(line)))
		b.WriteString(line + clearRestOfLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.Bytes()
}

// Last returns the last block, which replaces the one before it and is not cut.
func (s *Screen) Last(block []byte) []byte {
	if s.drawn == nil || s.IsOurs != nil && !s.IsOurs() {
		return block
	}
	columns, _ := s.size()
	return append([]byte(s.back(columns)+clearBelow), block...)
}

// Leave leaves the block that is drawn, because something is printed below it.
func (s *Screen) Leave() { s.drawn = nil }

// back moves the cursor to the first line of the block that is drawn. In a window that has become
// narrower, terminals have wrapped its lines.
func (s *Screen) back(columns int) string {
	if s.drawn == nil {
		return ""
	}
	rows := 0
	for _, width := range s.drawn {
		rows += max(1, (width+columns-1)/columns)
	}
	return fmt.Sprintf("\r\x1b[%dA", rows)
}

// ClearLine clears the line of the cursor: a terminal shows ^C there.
func (t *Terminal) ClearLine(out io.Writer) {
	if t != nil && t.IsOurs() {
		fmt.Fprint(out, "\r"+clearRestOfLine)
	}
}

// A Terminal is a terminal on which this process may draw as long as its job is in the foreground.
type Terminal struct{ file *os.File }

// NewTerminal returns nil if the file is nil or not a terminal.
func NewTerminal(f *os.File) *Terminal {
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Terminal{f}
}

// processGroup is this process's job. A shell sets it before the program begins, and in the sandbox
// the process can no longer ask for it.
var processGroup = unix.Getpgrp()

// IsOurs says whether the process may draw now: its job is in the foreground of the terminal, or no
// shell prompts there, because the terminal does not control the process.
func (t *Terminal) IsOurs() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err != nil || group == processGroup
}
