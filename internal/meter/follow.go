package meter

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A followed is an XDP program that we did not attach, and which we count or measure. When the
// interface runs another program, Follow switches to that one.
type followed struct {
	ifi      xdp.Interface // as it was before we attached
	selector string        // which of several programs is counted: see xdp.OneProgram
	watch    *xdp.HookWatch

	// switchTo starts counting another program instead of the current one, on the interface as it
	// is now. After an error it still counts the current one.
	switchTo func(ifi xdp.Interface, to xdp.Program) error

	mu       sync.Mutex // guards program, which Follow may change
	program  xdp.Program
	atHook   uint32 // id of the program at the hook, which may be a dispatcher of `program`; 0 = none
	runsHere bool   // `program` was one of the interface's programs
}

func newFollowed(ifi xdp.Interface, selector string, program xdp.Program, switchTo func(xdp.Interface, xdp.Program) error) (f *followed, err error) {
	f = &followed{ifi: ifi, selector: selector, switchTo: switchTo, program: program}
	if len(ifi.Programs) > 0 {
		f.atHook = ifi.Programs[0].ID
	}
	if f.runsHere, err = runsOn(ifi, program); err != nil {
		return nil, err
	}
	f.watch, err = xdp.WatchHook(ifi.Index)
	return f, err
}

// runsOn reports whether a program runs for the interface: attached to it, or called by a
// dispatcher.
func runsOn(ifi xdp.Interface, p xdp.Program) (bool, error) {
	running, err := xdp.Running(ifi)
	is := func(r xdp.Program) bool { return r.ID == p.ID }
	return slices.ContainsFunc(ifi.Programs, is) || slices.ContainsFunc(running, is), err
}

// Interface returns the interface as it was at Open.
func (f *followed) Interface() xdp.Interface { return f.ifi }

// Program returns the program that is counted now.
func (f *followed) Program() xdp.Program {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.program
}

// Follow checks which program the interface runs. If another program has replaced the counted one,
// Follow counts that one from now on, and returns a notice; the counters continue. Call it about
// once per second, from one goroutine, in the network namespace of Open. The error is an
// ErrNotCounting if no program is counted now, but a later call may find one that can be counted.
// Any other error is final. After an error the counters keep their values.
func (f *followed) Follow() (notice string, err error) {
	now, err := readHook(f.watch, f.ifi)
	if err != nil || now.Program == f.atHook {
		return "", err
	}
	notice, err = f.changeProgram(now.Of(f.ifi))
	if err != nil {
		// The program may have been replaced meanwhile: libxdp, for example, moves programs to a
		// new dispatcher.
		if again, err := f.watch.Look(); err == nil && again.Program != now.Program {
			return "", nil
		}
		return "", message.Errorf(ErrNotCounting, "%v does not run on %s any more: %w", f.program, f.ifi.Name, err)
	}
	f.atHook = now.Program
	return notice, nil
}

// readHook is HookWatch.Look with the interface's name in the error if the interface is gone.
func readHook(w *xdp.HookWatch, ifi xdp.Interface) (xdp.HookState, error) {
	now, err := w.Look()
	if errors.Is(err, xdp.ErrGone) {
		err = goneError(ifi)
	}
	return now, err
}

func goneError(ifi xdp.Interface) error {
	return message.Errorf(xdp.ErrGone, "%s was deleted or moved to another network namespace: start again when it is back", ifi.Name)
}

// changeProgram counts the program that the selector finds on the interface as it is now.
func (f *followed) changeProgram(ifi xdp.Interface) (notice string, err error) {
	next, err := xdp.OneProgram(ifi, f.selector)
	if err != nil {
		return "", err
	}
	runsHere, err := runsOn(ifi, next)
	if err != nil {
		return "", err
	}
	if next.ID == f.program.ID {
		// A selector that is an id finds its program even if it does not run here any more.
		if f.runsHere && !runsHere {
			return "", message.Errorf(xdp.ErrOtherProgram, "what runs there is %v", ifi.Programs)
		}
		f.runsHere = runsHere
		return "", nil
	}
	if err := f.switchTo(ifi, next); err != nil {
		return "", err
	}
	notice = fmt.Sprintf("%s runs %v instead of %v: now counting %[2]v; up to a second of packets may be missing", f.ifi.Name, next, f.program)
	f.mu.Lock()
	f.program, f.runsHere = next, runsHere
	f.mu.Unlock()
	return notice, nil
}
