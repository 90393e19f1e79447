package capture

import (
	"errors"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/watch"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The kinds of errors that a caller can react to, for errors.Is. An error's text is complete
// without its kind: it has the operation, its object and the cause.
var (
	// ErrBusy means that another XDP program was attached to an interface while Open ran.
	ErrBusy = xdp.ErrBusy
	// ErrNoNative means that the driver does not take the program in native mode: Generic may work.
	ErrNoNative = xdp.ErrNoNative
	// ErrNotAtXDP means that no program could be attached at an interface's XDP hook, but that
	// AtIngress would capture after it. It comes with the kind of the reason, if that has one.
	ErrNotAtXDP = xdp.ErrNotAtXDP
	// ErrNoProgram means that an interface runs no XDP program to trace: leave Hooks and Targets
	// nil.
	ErrNoProgram = xdp.ErrNoProgram
	// ErrSeveralPrograms means that an interface runs several programs: choose with
	// Options.Targets.
	ErrSeveralPrograms = xdp.ErrSeveralPrograms
	// ErrOtherProgram means that an interface does not run the program that Options.Targets names.
	ErrOtherProgram = xdp.ErrOtherProgram
	// ErrNeedsExit means that Options.Verdicts, Options.SlowerThan, Options.ReasonMap or
	// Options.FilterAtExit is set without Exit in Options.Hooks, or with Entry where entries do not
	// wait for exits: those of functions, and at tc.
	ErrNeedsExit = probe.ErrNeedsExit
	// ErrTraced means that Options.Sink or Options.Mode is set where a running program is traced.
	ErrTraced = probe.ErrTraced
	// ErrNoVerdict means that Options.Verdicts or Options.SampleVerdicts is set where a traced
	// function returns no verdict, or verdicts of another kind.
	ErrNoVerdict = probe.ErrNoVerdict
	// ErrLockedMemory means that the rings need more memory than this user may lock: make
	// Options.Buffer smaller, or grant CAP_IPC_LOCK.
	ErrLockedMemory = support.ErrLockedMemory
	// ErrPerfRefused means that this process may not use perf's rings: TransportRing works without
	// them.
	ErrPerfRefused = ring.ErrPerfRefused
	// ErrBufferTooLarge means that rings of Options.Buffer bytes would take too much of the
	// available memory, or more than there is: make it smaller, or leave it 0.
	ErrBufferTooLarge = support.ErrBufferTooLarge
	// ErrNoStamp means that packets at an interface or hook cannot have the time stamps of
	// Options.Stamp: HostStamp always works.
	ErrNoStamp = probe.ErrNoStamp
	// ErrNoClock is the same for AdapterStamp only: AdapterUnsyncedStamp works.
	ErrNoClock = probe.ErrNoClock
	// ErrInterfaceGone means that an interface of the session was deleted or moved to another
	// network namespace while the session ran. A session on several interfaces continues on the
	// others.
	ErrInterfaceGone = xdp.ErrGone
	// ErrBlind means that a hook of the session no longer sees packets, although its interface
	// exists: the sampling program was detached, the traced program replaced, or a slot of the hook
	// map was taken. A new session captures at the program that runs there now. Without
	// CAP_SYS_ADMIN a session does not notice when the last program that calls a hook map goes
	// away, and it reports a traced program as gone when its dispatcher is replaced.
	ErrBlind = watch.ErrBlind
	// ErrPassedBy is the kind of the Notice that an interface has received packets which did not
	// pass its XDP hook: AtIngress captures packets that tc redirects.
	ErrPassedBy = watch.ErrPassedBy
	// ErrEnough is returned by an output once it has the requested number of packets. It ends the
	// session without an error.
	ErrEnough = errors.New("the output has as much as requested")
)
