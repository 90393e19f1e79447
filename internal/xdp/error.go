package xdp

import (
	"errors"
	"fmt"
)

// The kinds of error that a caller can remedy by asking for something else. errors.Is finds the
// kind. The error's own text tells what was tried, on what, and why it failed; it does not contain
// the kind's text.
var (
	ErrBusy             = errors.New("an XDP program is already attached to the interface")
	ErrNoNative         = errors.New("the driver does not take the XDP program in native mode")
	ErrBelow            = errors.New("an interface above it runs an XDP program")
	ErrNotAll           = errors.New("no XDP program runs for all interfaces together")
	ErrNotAttachable    = errors.New("no XDP program can be attached to the interface")
	ErrNoProgram        = errors.New("the interface runs no XDP program")
	ErrSeveralPrograms  = errors.New("the interface runs several XDP programs")
	ErrOtherProgram     = errors.New("the interface does not run that XDP program")
	ErrAmbiguousProgram = errors.New("several XDP programs match where one is asked for")
	ErrNoSuchProgram    = errors.New("no such XDP program is loaded")
	ErrReplaced         = errors.New("another program has replaced the XDP program")
	ErrHidden           = errors.New("this process may not look behind an XDP dispatcher")
	ErrNoReason         = errors.New("no XDP program gives reasons")
	ErrGone             = errors.New("the interface has left the network namespace")
)

// Kind makes an error that matches kind with errors.Is. Its text is that of fmt.Errorf(format,
// args...). errors.Is and errors.As also find what the format wraps with %w.
func Kind(kind error, format string, args ...any) error {
	return &kindError{kind: kind, err: fmt.Errorf(format, args...)}
}

type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }
