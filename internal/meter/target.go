package meter

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A target is the program whose packets are counted, and the interface that it runs on.
type target struct {
	ifi      xdp.Interface // as it was before we attached
	selector string        // which of several programs is counted: see xdp.OneProgram
	watch    *xdp.HookWatch

	// move begins to count another program in place of the one before, on the interface as it is
	// now; nil = the program is ours.
	move func(ifi xdp.Interface, to xdp.Program) error

	mu      *sync.Mutex // held by who looks at program while Follow may change it
	program xdp.Program
	runs    uint32 // id of the program at the hook, which may be a dispatcher of `program`; 0 = none
	here    bool   // `program` was one of those that run for the interface
}

func newTarget(ifi xdp.Interface, selector string, program xdp.Program, move func(xdp.Interface, xdp.Program) error) (t target, err error) {
	t = target{ifi: ifi, selector: selector, move: move, mu: new(sync.Mutex), program: program}
	if len(ifi.Programs) > 0 {
		t.runs = ifi.Programs[0].ID
	}
	if t.here, err = runsOn(ifi, program); err != nil {
		return t, err
	}
	t.watch, err = xdp.WatchHook(ifi.Index)
	return t, err
}

// runsOn tells whether a program runs for the interface: attached to it, or behind a dispatcher.
func runsOn(ifi xdp.Interface, p xdp.Program) (bool, error) {
	running, err := xdp.Running(ifi)
	is := func(r xdp.Program) bool { return r.ID == p.ID }
	return slices.ContainsFunc(ifi.Programs, is) || slices.ContainsFunc(running, is), err
}

func (t *target) isOwn() bool { return t.move == nil }

// Interface returns the interface as it was at Open.
func (t *target) Interface() xdp.Interface { return t.ifi }

// Program returns the program that is counted now.
func (t *target) Program() xdp.Program {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.program
}

// Follow looks at the interface, and goes on with the program that has taken the place of the one
// that was counted. The counters go on, too. A caller that wants to know calls it about once per
// second, from one goroutine, in the network namespace of Open. The notice is not empty where another program is counted from now on.
// The error is an ErrNotCounting where nothing is counted now, but will be once Follow finds a
// program that it can count. Any other error is final. Either way the counters keep what was
// counted.
func (t *target) Follow() (notice string, err error) {
	now, err := look(t.watch, t.ifi)
	if err != nil || now.Program == t.runs {
		return "", err
	}
	if t.isOwn() {
		return "", fmt.Errorf("somebody has detached %v from %s: start again", t.program, t.ifi.Name)
	}
	notice, err = t.follow(now.Of(t.ifi))
	if err != nil {
		// What was looked at may have been replaced meanwhile, by libxdp for example, which moves
		// the programs behind a dispatcher to another one.
		if again, err := t.watch.Look(); err == nil && again.Program != now.Program {
			return "", nil
		}
		return "", xdp.Kind(ErrNotCounting, "%v does not run on %s any more: %w", t.program, t.ifi.Name, err)
	}
	t.runs = now.Program
	return notice, nil
}

// look names an interface that has gone.
func look(w *xdp.HookWatch, ifi xdp.Interface) (xdp.HookState, error) {
	now, err := w.Look()
	if errors.Is(err, xdp.ErrGone) {
		err = xdp.Kind(xdp.ErrGone, "%s was deleted or moved to another network namespace: start again when it is back", ifi.Name)
	}
	return now, err
}

func (t *target) follow(ifi xdp.Interface) (notice string, err error) {
	next, err := xdp.OneProgram(ifi, t.selector)
	if err != nil {
		return "", err
	}
	here, err := runsOn(ifi, next)
	if err != nil {
		return "", err
	}
	if next.ID == t.program.ID {
		// An id is chosen whether or not its program runs here.
		if t.here && !here {
			return "", xdp.Kind(xdp.ErrOtherProgram, "what runs there is %v", ifi.Programs)
		}
		return "", nil
	}
	if err := t.move(ifi, next); err != nil {
		return "", err
	}
	notice = fmt.Sprintf("%s runs %v in place of %v: that is counted from now on", t.ifi.Name, next, t.program)
	t.mu.Lock()
	t.program, t.here = next, here
	t.mu.Unlock()
	return notice, nil
}
