// Package message has what messages need: errors with a kind and a text, suggestions for mistyped
// words, sizes of rings, and texts that are safe to print on a terminal or to type in a shell.
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
