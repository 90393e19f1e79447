package syntax

import (
	"errors"
	"fmt"
)

// Kinds of faults that the caller can fix without changing the expression. Package filter exports
// them.
var (
	ErrUnsupported = errors.New("this compiler does not support it; a program compiled elsewhere does it")
	ErrInterface   = errors.New("the caller chooses the interface, not the filter")
	ErrNothing     = errors.New("the filter matches no packet")
	ErrNoSet       = errors.New("the caller has not given the set")
)

// Fault is a fault in an expression: the faulty word, the reason, and a correction. The stage that
// finds it calls Raise or a token's Fail, which panic; Catch, around all stages, turns the panic
// into a value.
type Fault struct {
	Pos     int    // byte offset of Word in the expression
	Word    string // empty at the end of the expression, and if no single word is faulty
	Message string // the reason
	Hint    string // the correction; may be empty
	Kind    error  // one of the kinds above; nil for most faults
}

// Raise ends the current stage because of the expression as a whole.
func Raise(hint, format string, args ...any) {
	panic(&Fault{Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Throw ends the current stage.
func (f Fault) Throw() { panic(&f) }

// Catch runs the stages, and returns the fault that ended them, or nil. Any other panic is a bug
// and passes through.
func Catch(stages func()) (f *Fault) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if f, ok = r.(*Fault); !ok {
				panic(r)
			}
		}
	}()
	stages()
	return nil
}
