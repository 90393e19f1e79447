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

// A Screen is a terminal on which each block of lines replaces the block before.
type Screen struct {
	Size   func() (columns, rows int, err error)
	IsOurs func() bool // see Terminal; nil = always true
	drawn  []int       // columns of each line of the current block; nil = there is no block to replace
}

// NewScreen is nil where f is not a terminal.
func NewScreen(f *os.File) *Screen {
	t := NewTerminal(f)
	if t == nil {
		return nil
	}
	return &Screen{Size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }, IsOurs: t.IsOurs}
}

// size returns the size of the window, or 80 by 24 if it is unknown.
func (s *Screen) size() (columns, rows int) {
	columns, rows, err := s.Size()
	if err != nil || columns < 1 || rows < 2 {
		return 80, 24
	}
	return columns, rows
}

// Page returns a page with the width of the window, whose text goes into b.
func (s *Screen) Page(b *bytes.Buffer, colored bool) *Page {
	columns, _ := s.size()
	return &Page{Writer: b, Columns: columns, Colored: colored, Blocks: IsUTF8()}
}

// Escape sequences that erase.
const clearRestOfLine, clearBelow = "\x1b[K", "\x1b[J"

// Redraw returns a block with the escape sequences by which it replaces the block before. The block
// is cut to the size of the screen, because lines that wrap or scroll would move the next block.
// For a process in the background the result is empty, because then the shell uses the screen.
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
	b := bytes.NewBufferString(s.cursorToFirstLine(columns))
	s.drawn = nil
	for _, line := range lines {
		line = cutLine(line, columns)
		s.drawn = append(s.drawn, utf8.RuneCountInString(strings.NewReplacer(red, "", noColor, "").Replace(line)))
		b.WriteString(line + clearRestOfLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.Bytes()
}

// Last returns the last block with the escape sequences by which it replaces the block before. It
// is not cut.
func (s *Screen) Last(block []byte) []byte {
	if s.drawn == nil || s.IsOurs != nil && !s.IsOurs() {
		return block
	}
	columns, _ := s.size()
	return append([]byte(s.cursorToFirstLine(columns)+clearBelow), block...)
}

// Leave makes the next block begin below the current one instead of replacing it.
func (s *Screen) Leave() { s.drawn = nil }

// cursorToFirstLine returns the escape sequence that moves the cursor to the first line of the
// current block. If the window has become narrower, the terminal has wrapped the block's lines.
func (s *Screen) cursorToFirstLine(columns int) string {
	if s.drawn == nil {
		return ""
	}
	rows := 0
	for _, width := range s.drawn {
		rows += max(1, (width+columns-1)/columns)
	}
	return fmt.Sprintf("\r\x1b[%dA", rows)
}

// ClearLine clears the line of the cursor, in which a terminal shows ^C.
func (t *Terminal) ClearLine(out io.Writer) {
	if t != nil && t.IsOurs() {
		fmt.Fprint(out, "\r"+clearRestOfLine)
	}
}

// A Terminal is a terminal on which this process may draw while its job is in the foreground.
type Terminal struct{ file *os.File }

// NewTerminal returns nil if the file is nil or not a terminal.
func NewTerminal(f *os.File) *Terminal {
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Terminal{f}
}

// processGroup is this process's job, which a shell sets before the program begins. It is read at
// once, because the sandbox does not permit the system call.
var processGroup = unix.Getpgrp()

// IsOurs reports whether the process may draw now: its job is in the foreground of the terminal, or
// the terminal does not control the process, so that no shell prompts there.
func (t *Terminal) IsOurs() bool {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err != nil || group == processGroup
}
