package capture

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kinds of errors that a caller can do something about, for errors.Is. An error's own text is
// complete without its kind: it says what was tried, on what, and why that failed.
var (
	// ErrBusy is that an XDP program was attached to an interface while Open was about to.
	ErrBusy = xdp.ErrBusy
	// ErrNoNative is that the driver does not take the program in native mode: Generic may work.
	ErrNoNative = xdp.ErrNoNative
	// ErrNoProgram is that an interface runs no XDP program to trace: leave Hooks and Targets nil.
	ErrNoProgram = xdp.ErrNoProgram
	// ErrSeveralPrograms is that an interface runs several: choose with Options.Targets.
	ErrSeveralPrograms = xdp.ErrSeveralPrograms
	// ErrOtherProgram is that an interface does not run the program that Options.Targets names.
	ErrOtherProgram = xdp.ErrOtherProgram
	// ErrNeedsExit is that Options.Verdicts or Options.FilterAtExit is set without Exit in
	// Options.Hooks.
	ErrNeedsExit = errors.New("needs the exit of a traced program")
	// ErrTraced is that Options.Sink or Options.Mode is set where a running program is traced.
	ErrTraced = errors.New("not possible where a program is traced")
	// ErrLockedMemory is that the rings need more memory than this user may lock: make
	// Options.Buffer smaller, or grant CAP_IPC_LOCK.
	ErrLockedMemory = support.ErrLockedMemory
	// ErrInterfaceGone is that an interface of the session was deleted or moved to another network
	// namespace while the session ran.
	ErrInterfaceGone = errors.New("interface gone")
)
