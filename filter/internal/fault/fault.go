// Package fault carries what is wrong with an expression out of the stage that finds it. A stage
// calls Raise, or a token's Fail, which panics; Catch around all stages turns that into a value.
package fault

import (
	"errors"
	"fmt"
)

// Kinds of faults that the caller can remedy by other means than another expression. Package filter
// exports them.
var (
	ErrUnsupported = errors.New("this compiler cannot do it, a program compiled elsewhere can")
	ErrInterface   = errors.New("the caller chooses the interface, a filter does not")
	ErrNothing     = errors.New("the filter matches no packet")
)

// Fault says which word of an expression is to blame, and for what.
type Fault struct {
	Pos     int    // byte offset of Word in the expression
	Word    string // empty at the end of the expression, and where no single word is to blame
	Message string // what is wrong
	Hint    string // what to do about it; may be empty
	Kind    error  // one of the kinds above; nil for most faults
}

// Raise ends the current stage because of the expression as a whole.
func Raise(hint, format string, args ...any) {
	panic(&Fault{Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Throw ends the current stage.
func (f Fault) Throw() { panic(&f) }

// Catch runs the stages, and gives back the fault that ended them; nil if none did. Any other panic
// is a bug, and goes on.
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
