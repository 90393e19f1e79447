package capture

import (
	"errors"

	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kinds of errors that a caller can do something about, for errors.Is. An error's own text is
// complete without its kind: it says what was tried, on what, and why that failed.
var (
	// ErrBusy means that another XDP program was attached to an interface while Open was at work.
	ErrBusy = xdp.ErrBusy
	// ErrNoNative means that the driver does not take the program in native mode: Generic may work.
	ErrNoNative = xdp.ErrNoNative
	// ErrNoProgram means that an interface runs no XDP program to trace: leave Hooks and Targets
	// nil.
	ErrNoProgram = xdp.ErrNoProgram
	// ErrSeveralPrograms means that an interface runs several programs: choose with
	// Options.Targets.
	ErrSeveralPrograms = xdp.ErrSeveralPrograms
	// ErrOtherProgram means that an interface does not run the program that Options.Targets names.
	ErrOtherProgram = xdp.ErrOtherProgram
	// ErrNeedsExit means that Options.Verdicts or Options.FilterAtExit is set without Exit in
	// Options.Hooks.
	ErrNeedsExit = errors.New("needs the exit of a traced program")
	// ErrTraced means that Options.Sink or Options.Mode is set where a running program is traced.
	ErrTraced = errors.New("not possible where a program is traced")
	// ErrLockedMemory means that the rings need more memory than this user may lock: make
	// Options.Buffer smaller, or grant CAP_IPC_LOCK.
	ErrLockedMemory = support.ErrLockedMemory
	// ErrPerfRefused means that this process may not have perf's rings: TransportRing does without.
	ErrPerfRefused = errors.New("perf's rings are refused")
	// ErrBufferTooLarge means that rings of Options.Buffer bytes would take too much of the memory
	// that is available, or that there is not as much: make it smaller, or leave it 0.
	ErrBufferTooLarge = support.ErrBufferTooLarge
	// ErrNoStamp means that packets at an interface or hook cannot have the time stamps that
	// Options.Stamp asks for: HostStamp can always be had.
	ErrNoStamp = errors.New("packets cannot have these time stamps")
	// ErrNoClock means the same of AdapterStamp alone: AdapterUnsyncedStamp can be had.
	ErrNoClock = errors.New("the card has no clock that can be compared")
	// ErrInterfaceGone means that an interface of the session was deleted or moved to another
	// network namespace while the session ran. A session of several goes on with the others.
	ErrInterfaceGone = xdp.ErrGone
	// ErrBlind means that a hook of the session sees packets no more, although its interface is
	// there: the sampling program was detached, the traced program replaced, or a slot of the hook
	// map was taken. A new session captures what runs there now. Without CAP_SYS_ADMIN a session
	// does not notice that the last program that calls a hook map has gone, and takes a program for
	// gone when the dispatcher that it is behind is exchanged.
	ErrBlind = errors.New("the hook sees no packets any more")
	// ErrNameTaken means that there is a file of the name that one of a Rotation would have, which
	// NoOverwrite leaves alone.
	ErrNameTaken = outfile.ErrNameTaken
	// ErrNoReader means that a file is a FIFO which nobody has opened for reading.
	ErrNoReader = outfile.ErrNoReader
	// ErrEnough is what an output returns that has as many packets as it was asked for. It ends a
	// session and is no error of it.
	ErrEnough = errors.New("the output has as much as was asked for")
)
