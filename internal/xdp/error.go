package xdp

import "errors"

// The kinds of error that a caller can remedy with other options. errors.Is finds the kind. The
// error's own text has the operation, its object and the cause; it does not contain the kind's
// text.
var (
	ErrBusy             = errors.New("an XDP program is already attached to the interface")
	ErrNoNative         = errors.New("the driver does not take the XDP program in native mode")
	ErrBelow            = errors.New("an interface above it runs an XDP program")
	ErrNotAll           = errors.New("no XDP program runs for all interfaces together")
	ErrNotAtXDP         = errors.New("no XDP program can be attached, and packets can be seen after XDP")
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
