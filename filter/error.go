package filter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/filter/internal/fault"
)

// Kinds of errors that a caller can remedy by other means than another expression. errors.Is finds
// them in an *Error; their texts are not part of the error's own.
var (
	// ErrUnsupported is the kind of an expression that this compiler does not support. ParseRaw
	// reads the program that another compiler makes of it.
	ErrUnsupported = fault.ErrUnsupported
	// ErrInterface is the kind of an expression that chooses an interface, which only the caller
	// can do.
	ErrInterface = fault.ErrInterface
	// ErrNothing is the kind of an expression that matches no packet: of this direction, where it
	// says inbound or outbound.
	ErrNothing = fault.ErrNothing
)

// Error says which word of an expression is to blame, for what, and what to write instead. Compile
// returns no other type of error for a faulty expression.
type Error struct {
	Text    string // the whole expression
	Pos     int    // byte offset of Word in Text
	Word    string // the word to blame; empty at the end of Text, all of Text if it is no single word
	Message string // what is wrong
	Hint    string // what to do about it; may be empty
	Kind    error  // ErrUnsupported, ErrInterface or ErrNothing; nil for all other errors
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// newError is a fault as the caller of Compile gets it.
func newError(text string, f *fault.Fault) *Error {
	e := &Error{Text: text, Pos: f.Pos, Word: f.Word, Message: f.Message, Hint: f.Hint, Kind: f.Kind}
	if e.Word == "" && e.Pos == 0 {
		e.Word = text
	}
	return e
}

// Error is one line: the message, the word, the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	if e.Word != "" && e.Word != e.Text {
		fmt.Fprintf(&b, " (at %q, byte %d)", shorten(e.Word, maxWord), e.Pos)
	}
	if e.Hint != "" {
		b.WriteString(": ")
		b.WriteString(shorten(e.Hint, maxColumns))
	}
	return b.String()
}

// A word that is shown in a line of text has at most maxWord characters, and a line of Caret has
// maxColumns.
const maxWord, maxColumns = 40, 100

// shorten cuts what is longer than so many characters, and ends it with … then.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// flat is s with one character that a terminal prints as it stands for each that it does not.
func flat(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Caret is the expression with the word underlined, then the message and the hint, each on a line.
// Of a long expression it shows the 100 characters around the word. Control characters are
// replaced, because they would move the underline away from its word. There is no newline at the
// end.
func (e *Error) Caret() string {
	text := []rune(flat(e.Text))
	from := utf8.RuneCountInString(e.Text[:min(e.Pos, len(e.Text))])
	to := from + max(1, utf8.RuneCountInString(e.Word))
	if first := max(0, min(from-maxColumns/2, len(text)-maxColumns)); first > 0 {
		text = append([]rune("…"), text[first+1:]...)
		from, to = from-first, to-first
	}
	if len(text) > maxColumns {
		text = append(text[:maxColumns-1:maxColumns-1], '…')
		to = min(to, maxColumns)
	}
	s := string(text) + "\n" + strings.Repeat(" ", from) + strings.Repeat("^", to-from) + "\n" + flat(e.Message)
	if e.Hint != "" {
		s += "\n" + flat(shorten(e.Hint, maxColumns))
	}
	return s
}
