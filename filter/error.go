package filter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/xdpcap/xdpcap/filter/internal/syntax"
)

// Kinds of errors that a caller can fix without changing the expression. errors.Is finds them in an
// *Error; their texts are not part of the error's own.
var (
	// ErrUnsupported is the kind for an expression that this compiler does not support. ParseRaw
	// can read the program of another compiler instead.
	ErrUnsupported = syntax.ErrUnsupported
	// ErrInterface is the kind for an expression that chooses an interface, which only the caller
	// can do.
	ErrInterface = syntax.ErrInterface
	// ErrNothing is the kind for an expression that matches no packet. If it contains inbound or
	// outbound, it may match packets of the other direction.
	ErrNothing = syntax.ErrNothing
	// ErrNoSet is the kind for an expression with a set that Options.Sets does not have.
	ErrNoSet = syntax.ErrNoSet
)

// Error is a fault in an expression: the faulty word, the reason, and a correction. Compile returns
// no other type of error for a faulty expression.
type Error struct {
	Text    string // the whole expression
	Pos     int    // byte offset of Word in Text
	Word    string // the faulty word; empty at the end of Text, all of Text if it is no single word
	Message string // the reason
	Hint    string // the correction; may be empty
	Kind    error  // ErrUnsupported, ErrInterface, ErrNothing or ErrNoSet; nil for all other errors
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// newError turns a fault into the error that Compile returns.
func newError(text string, f *syntax.Fault) *Error {
	e := &Error{Text: text, Pos: f.Pos, Word: f.Word, Message: f.Message, Hint: f.Hint, Kind: f.Kind}
	if e.Word == "" && e.Pos == 0 {
		e.Word = text
	}
	return e
}

// Error returns one line: the message, the word, the hint.
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

// maxWord is the maximum length in characters of a word in a line of text, and maxColumns that of a
// line of Caret.
const maxWord, maxColumns = 40, 100

// shorten cuts s to `most` characters, the last of which is then an ellipsis.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// flat replaces the characters of s that would move a terminal's cursor: white space by spaces,
// other unprintable characters by U+FFFD.
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

// Caret returns the expression with the word underlined, then the message and the hint, each on its
// own line, without a newline at the end. Of a long expression it shows the 100 characters around
// the word. Control characters are replaced, because they would move the underline away from its
// word.
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
