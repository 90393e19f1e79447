package frame

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/xdpcap/xdpcap/internal/message"
)

// MaxColumns is the width of wrapped text if it is not printed to a window.
const MaxColumns = 100

// A Page is the terminal, file or pipe to which tables are printed. On a Page without Columns no
// line is shortened.
type Page struct {
	io.Writer
	Columns int  // of the window; 0 = lines may have any length
	Colored bool // losses are red
	Blocks  bool // the terminal has block characters
}

// PageOf returns w itself if it is a Page, else a Page without Columns and colours that prints to
// w.
func PageOf(w io.Writer) *Page {
	if p, ok := w.(*Page); ok {
		return p
	}
	return &Page{Writer: w}
}

// NewPage returns the page of a file, with the width of the window if it is a terminal. color is
// the value of ColorFlag.
func NewPage(f *os.File, color string) *Page {
	p := &Page{Writer: f, Colored: Colored(color, f)}
	if f == nil {
		return p
	}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
		p.Columns, p.Blocks = columns, IsUTF8()
	}
	return p
}

// Line prints a line, shortened to the width of the page.
func (p *Page) Line(format string, args ...any) {
	text := message.Escape(fmt.Sprintf(format, args...))
	if p.Columns > 0 {
		text = Shorten(text, p.Columns)
	}
	fmt.Fprintln(p, text)
}

const red, noColor = "\x1b[31m", "\x1b[m"

// Red returns a text in red, if the page has colours.
func (p *Page) Red(text string) string {
	if !p.Colored {
		return text
	}
	return red + text + noColor
}

// cutLine shortens a line that may have red parts, whose escape sequences need no columns.
func cutLine(line string, columns int) string {
	var b strings.Builder
	for line != "" && columns > 0 {
		before, rest, found := strings.Cut(line, red)
		part := Shorten(before, columns)
		b.WriteString(part)
		if columns -= len([]rune(part)); !found || part != before || columns == 0 {
			break
		}
		inner, after, _ := strings.Cut(rest, noColor)
		part = Shorten(inner, columns)
		b.WriteString(red + part + noColor)
		if columns -= len([]rune(part)); part != inner {
			break
		}
		line = after
	}
	return b.String()
}

// Bar draws a share, 0 to 1, as a bar in that share of the columns, rounded up. Spaces fill the
// rest.
func (p *Page) Bar(share float64, columns int) string {
	share = min(1, share)
	if !p.Blocks {
		length := int(math.Ceil(share * float64(columns)))
		return strings.Repeat("#", length) + strings.Repeat(" ", columns-length)
	}
	return Blocks(math.Ceil(share*float64(8*columns)), columns)
}

// Blocks returns a bar of that many eighths of a column, and spaces up to the number of columns.
func Blocks(eighths float64, columns int) string {
	whole, rest := int(eighths)/8, int(eighths)%8
	bar := strings.Repeat("█", whole)
	if rest > 0 {
		bar, whole = bar+string([]rune("▏▎▍▌▋▊▉")[rest-1]), whole+1
	}
	return bar + strings.Repeat(" ", columns-whole)
}

// Spark is the function Spark, with block characters if the page has them.
func (p *Page) Spark(values []float64) string { return Spark(values, p.Blocks) }

// Spark draws numbers as a row of bars, the highest one of full height, with block characters or in
// ASCII.
func Spark(values []float64, blocks bool) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	if !blocks {
		steps = []rune("..::||##")
	}
	var drawn []rune
	for _, v := range values {
		step := ' '
		if v > 0 {
			step = steps[min(7, int(v/slices.Max(values)*8))]
		}
		drawn = append(drawn, step)
	}
	return string(drawn)
}

// ColorFlag is --color.
func ColorFlag(word *string) Flag {
	return Flag{Name: "color", Value: word, Default: "auto", Words: colorWords,
		Help: "use colours, as this `word` says: auto (on a terminal, unless NO_COLOR is set), always or never"}
}

var colorWords = []string{"auto", "always", "never"}

// CheckColor refuses other values of ColorFlag.
func CheckColor(word string) error {
	if !slices.Contains(colorWords, word) {
		return fmt.Errorf("--color %s: must be auto, always or never", word)
	}
	return nil
}

// Colored reports whether text to a file has colours, by the value of ColorFlag: with auto on a
// terminal that supports them, unless NO_COLOR is set (see no-color.org).
func Colored(word string, f *os.File) bool {
	if word != "auto" {
		return word == "always"
	}
	return f != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
