package filter

import (
	"fmt"
	"strings"

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
)

// Error says which word of an expression is to blame, for what, and what to write instead. Compile
// returns no other type of error for a faulty expression.
type Error struct {
	Text    string // the whole expression
	Pos     int    // byte offset of Word in Text
	Word    string // the word to blame; empty at the end of Text, all of Text if it is no single word
	Message string // what is wrong
	Hint    string // what to do about it; may be empty
	Kind    error  // ErrUnsupported or ErrInterface; nil for all other errors
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
		fmt.Fprintf(&b, " (at %q, byte %d)", e.Word, e.Pos)
	}
	if e.Hint != "" {
		b.WriteString(": ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Caret is the expression with the word underlined, then the message and the hint, each on a line.
// There is no newline at the end.
func (e *Error) Caret() string {
	// A tab or newline would move the underline away from its word.
	flat := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, e.Text)
	// A control character is one byte before and after, so Pos still holds.
	before := len([]rune(flat[:min(e.Pos, len(flat))]))
	width := max(1, len([]rune(e.Word)))
	s := flat + "\n" + strings.Repeat(" ", before) + strings.Repeat("^", width) + "\n" + e.Message
	if e.Hint != "" {
		s += "\n" + e.Hint
	}
	return s
}
