package meter

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Kinds of errors that a caller can remedy with other options. errors.Is finds the kind; the text
// of an error does not contain the kind's text.
var (
	// ErrNotMeasurable means that the program cannot be traced. OpenRuntime measures without
	// tracing.
	ErrNotMeasurable = errors.New("the run time of the program cannot be measured by tracing it")
	// ErrNotCountable means that the program cannot be traced. Once it is detached, a program of
	// ours can count.
	ErrNotCountable = errors.New("the packets of the program cannot be counted by tracing it")
	// ErrNotCounting means that the counted program no longer runs on the interface, and that there
	// is no other one that can be counted.
	ErrNotCounting = errors.New("nothing is counted at the moment")
	// ErrProgramDecides means that ActionsOptions.Verdict is set, but the interface already runs a
	// program, which returns the verdicts.
	ErrProgramDecides = errors.New("the running program decides about packets")
	// ErrNoVerdict means that ProtocolsOptions.Verdicts is set but no program is traced.
	ErrNoVerdict = errors.New("no program decides about packets")
)

// IsUntraceable reports whether an XDP program runs that cannot be traced, or more than one.
func IsUntraceable(err error) bool {
	return errors.Is(err, ErrNotCountable) || errors.Is(err, xdp.ErrSeveralPrograms)
}
