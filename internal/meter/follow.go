package meter

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A followed program is one of others whose packets are counted, or which is measured. Follow
// replaces it when the interface runs another one.
type followed struct {
	ifi      xdp.Interface // as it was before we attached
	selector string        // which of several programs is counted: see xdp.OneProgram
	watch    *xdp.HookWatch

	// move starts counting another program instead of the current one, on the interface as it is
	// now. After an error it still counts the current one.
	move func(ifi xdp.Interface, to xdp.Program) error

	mu      sync.Mutex // guards program, which Follow may change
	program xdp.Program
	runs    uint32 // id of the program at the hook, which may be a dispatcher of `program`; 0 = none
	here    bool   // `program` was one of the interface's programs
}

func newFollowed(ifi xdp.Interface, selector string, program xdp.Program, move func(xdp.Interface, xdp.Program) error) (f *followed, err error) {
	f = &followed{ifi: ifi, selector: selector, move: move, program: program}
	if len(ifi.Programs) > 0 {
		f.runs = ifi.Programs[0].ID
	}
	if f.here, err = runsOn(ifi, program); err != nil {
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

// Follow looks at the interface. If another program has replaced the counted one, Follow counts
// that one from now on, and the counters continue. Call it about once per second, from one
// goroutine, in the network namespace of Open. The notice is not empty if another program is
// counted from now on. The error is an ErrNotCounting if no program is counted now, but Follow will
// continue once it finds a program that it can count. Any other error is final. Either way the
// counters keep their values.
func (f *followed) Follow() (notice string, err error) {
	now, err := look(f.watch, f.ifi)
	if err != nil || now.Program == f.runs {
		return "", err
	}
	notice, err = f.follow(now.Of(f.ifi))
	if err != nil {
		// The program may have been replaced meanwhile: libxdp, for example, moves programs to a
		// new dispatcher.
		if again, err := f.watch.Look(); err == nil && again.Program != now.Program {
			return "", nil
		}
		return "", message.Errorf(ErrNotCounting, "%v does not run on %s any more: %w", f.program, f.ifi.Name, err)
	}
	f.runs = now.Program
	return notice, nil
}

// look is HookWatch.Look with the interface's name in the error if the interface is gone.
func look(w *xdp.HookWatch, ifi xdp.Interface) (xdp.HookState, error) {
	now, err := w.Look()
	if errors.Is(err, xdp.ErrGone) {
		err = gone(ifi)
	}
	return now, err
}

func gone(ifi xdp.Interface) error {
	return message.Errorf(xdp.ErrGone, "%s was deleted or moved to another network namespace: start again when it is back", ifi.Name)
}

func (f *followed) follow(ifi xdp.Interface) (notice string, err error) {
	next, err := xdp.OneProgram(ifi, f.selector)
	if err != nil {
		return "", err
	}
	here, err := runsOn(ifi, next)
	if err != nil {
		return "", err
	}
	if next.ID == f.program.ID {
		// An id selects its program whether or not it runs here.
		if f.here && !here {
			return "", message.Errorf(xdp.ErrOtherProgram, "what runs there is %v", ifi.Programs)
		}
		f.here = here
		return "", nil
	}
	if err := f.move(ifi, next); err != nil {
		return "", err
	}
	notice = fmt.Sprintf("%s runs %v instead of %v: now counting %[2]v; up to a second of packets may be missing", f.ifi.Name, next, f.program)
	f.mu.Lock()
	f.program, f.here = next, here
	f.mu.Unlock()
	return notice, nil
}
