// Package message makes the messages of errors: errors that are of a kind, and have a text of their
// own, the question for the words that somebody may have meant who mistyped one, and sizes of
// rings.
package message

import "fmt"

// Errorf makes an error that matches kind with errors.Is. Its text is that of fmt.Errorf(format,
// args...). errors.Is and errors.As also find what the format wraps with %w.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind: kind, err: fmt.Errorf(format, args...)}
}

type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }
