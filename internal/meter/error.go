package meter

import "errors"

// The kinds of error that a caller can remedy by asking for something else. An error of one of
// these kinds matches it with errors.Is, and its own text is complete without that of the kind.
var (
	// ErrNothingToMeasure means that the interface runs no XDP program. OpenBuiltin attaches one.
	ErrNothingToMeasure = errors.New("the interface runs no XDP program to measure")
	// ErrOccupied means that the interface runs an XDP program, whose place ours would need.
	ErrOccupied = errors.New("the interface has no place for an XDP program of ours")
	// ErrNotMeasurable means that the program cannot be traced. OpenRuntime and OpenBuiltin measure
	// without tracing.
	ErrNotMeasurable = errors.New("the run time of the program cannot be measured by tracing it")
	// ErrNotCountable means that the program cannot be traced. Where it is detached, a program of
	// ours can count.
	ErrNotCountable = errors.New("the packets of the program cannot be counted by tracing it")
	// ErrNotCounting means that the program has left the interface, and that nothing took its place
	// that can be counted.
	ErrNotCounting = errors.New("nothing is counted at the moment")
	// ErrProgramDecides means that ActionsOptions.Verdict is set where a running program is
	// counted.
	ErrProgramDecides = errors.New("the running program decides about packets")
	// ErrNoVerdict means that ProtocolsOptions.Verdicts is set where no program is traced.
	ErrNoVerdict = errors.New("no program decides about packets")
	// ErrRunsProgram means that the interface runs an XDP program, whose place BenchAttached would
	// need. BenchProgram measures that program.
	ErrRunsProgram = errors.New("the interface runs an XDP program that could be measured itself")
	// ErrNoTraffic means that no packet came in while BenchAttached measured.
	ErrNoTraffic = errors.New("no packet came in")
	// ErrNotRunnable means that the kernel does not run the program on packets from user space.
	ErrNotRunnable = errors.New("the kernel does not run the program on packets from user space")
)
