package filter

import (
	"fmt"
	"strings"
)

// Error says which word of an expression cannot be had, why, and what to write instead. Compile returns no other type of
// error for a faulty expression.
type Error struct {
	Text    string // the whole expression
	Pos     int    // byte offset of Word in Text
	Word    string // the offending word; empty at the end of the expression, all of Text if no word is to blame
	Message string // what is wrong
	Hint    string // what to do about it; may be empty
}

// Error is one line: message, word, hint.
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

// Caret renders the expression with the offending word underlined, then the message and the hint, a line each. There is no
// newline at the end.
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

// fileHint is the way out for what a pure compiler on Ethernet cannot do.
const fileHint = "compile it elsewhere with tcpdump -ddd and pass the output with --filter-file"

// abort carries an Error through the recursive passes; run turns it back into an ordinary error.
type abort struct{ err *Error }

// fail ends the current pass at t.
func fail(t token, hint, format string, args ...any) {
	panic(abort{&Error{Pos: t.pos, Word: t.text, Message: fmt.Sprintf(format, args...), Hint: hint}})
}

// run calls the passes and gives back what they fail with. Any other panic is a bug and goes on.
func run(text string, passes func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			a, ok := r.(abort)
			if !ok {
				panic(r)
			}
			if a.err.Text = text; a.err.Word == "" && a.err.Pos == 0 {
				a.err.Word = text
			}
			err = a.err
		}
	}()
	passes()
	return nil
}
