// Package watch has the goroutines that watch a running session: whether its hooks still get their
// packets, which interfaces come and go, whether packets are lost, and which sampling rate fits.
package watch

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// ErrBlind means that a hook is blind: it no longer gets packets, although its interface exists.
var ErrBlind = errors.New("the hook no longer sees packets")

// watchInterval is how often a session checks its hooks and the cards' clocks.
const watchInterval = time.Second

// Hooks are the hooks of a session.
type Hooks struct {
	sync.Mutex // held while hooks are checked, added and detached
	All        []probe.Hook
	Detached   atomic.Bool // all hooks are detached, and all programs of the session have ended
}

// WhileAttached calls do unless the session was stopped. Stop waits until it returns.
func (h *Hooks) WhileAttached(do func()) {
	h.Lock()
	defer h.Unlock()
	if !h.Detached.Load() {
		do()
	}
}

// A Watch checks every second which hooks of a session have gone blind or lost their interface: the
// kernel does not notify a process that its program was detached, or that a traced program was
// replaced. If the session has a Followed, its goroutine also runs the methods of that.
type Watch struct {
	Options
	task
	seeing      []probe.Hook // the hooks that still see packets; nil if Followed checks them
	inNamespace bool         // its goroutine is in the network namespace of the session
	requests    chan filterRequest
}

// Options are the objects that a watch checks, and the functions that it calls.
type Options struct {
	Hooks    *Hooks
	Followed *Followed // nil = no interface comes or goes, and no filter changes
	Roster   *probe.Roster
	Witness  *Witness
	Fail     func(error) // records an error that Session.Run returns
	Notice   func(error)
	Stop     func() // ends the session
}

// New returns a watch that has not begun: see Start.
func New(o Options) *Watch {
	w := &Watch{Options: o, task: newTask(), seeing: o.Hooks.All, requests: make(chan filterRequest)}
	if w.followsInterfaces() {
		w.seeing = nil // Followed checks the hooks with their interfaces
	}
	return w
}

// followsInterfaces reports whether interfaces come and go. In a session with a Followed where they
// do not, only the filter changes.
func (w *Watch) followsInterfaces() bool { return w.Followed != nil && w.Followed.finder != nil }

// Start starts the goroutine, and waits until it has entered the network namespace of the caller.
func (w *Watch) Start() error {
	home, err := netns.Get()
	entered := make(chan error, 1)
	go func() {
		defer close(w.Done)
		if err == nil {
			err = errors.Join(xdp.Enter(home), home.Close())
		}
		w.inNamespace = err == nil
		if w.Followed == nil {
			err = nil // the goroutine needs the namespace only to attach lost programs again
		}
		entered <- err
		if err == nil {
			w.run()
		}
	}()
	return <-entered
}

// run checks the hooks and the cards' clocks regularly, and finds interfaces that come and go,
// until quit is closed.
func (w *Watch) run() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	var changes <-chan struct{} // nil without Followed
	var refused <-chan attach.Refusal
	if w.followsInterfaces() {
		changes = w.Followed.finder.Changed
		if y := w.Followed.yielded; y != nil {
			refused = y.refused
		}
	}
	// After a change, changed is nil until paused: the changes in between are handled together.
	changed, paused := changes, (<-chan time.Time)(nil)
	for {
		select {
		case <-w.quit:
			return
		case <-ticker.C:
			switch {
			case w.followsInterfaces():
				w.Followed.follow(checkAll)
				w.Followed.traceOthers()
			default:
				w.checkHooks()
				if w.Followed != nil {
					w.Hooks.WhileAttached(w.Followed.retire)
				}
			}
			probe.MeasureClocks(w.Roster.Cards(), w.Notice)
			w.attachAgain(w.Witness.Update())
		case r := <-w.requests:
			r.done <- w.Followed.setFilter(r.expression)
		case r := <-refused:
			w.Followed.giveWay(r)
		case <-paused:
			changed, paused = changes, nil
		case <-changed:
			w.Followed.follow(onlyChanges)
			changed, paused = nil, time.After(followPause)
		}
	}
}

// checkHooks reports hooks that have gone blind or lost their interface. The session continues
// while at least one hook sees packets; when it ends, its error names the others.
func (w *Watch) checkHooks() {
	var blind []error
	goesOn := true
	w.Hooks.WhileAttached(func() {
		blind = w.FindBlind()
		goesOn = len(w.seeing) > 0
	})
	for _, err := range blind {
		w.Fail(err)
		if goesOn {
			w.Notice(err)
		}
	}
	if !goesOn {
		w.Stop()
	}
}

// FindBlind returns errors for the hooks that have gone blind, or lost their interface, since the
// last call. It removes these hooks from those that the watch checks.
func (w *Watch) FindBlind() (blind []error) {
	w.seeing = slices.DeleteFunc(slices.Clone(w.seeing), func(h probe.Hook) bool {
		err := whyBlind(h)
		// Several hooks have the same error if their interface is gone.
		if err != nil && !slices.ContainsFunc(blind, func(other error) bool { return other.Error() == err.Error() }) {
			blind = append(blind, err)
		}
		return err != nil
	})
	return blind
}

// whyBlind returns why a hook no longer sees its packets, an ErrBlind or an xdp.ErrGone, or nil.
func whyBlind(h probe.Hook) error {
	err := h.Check()
	if err == nil {
		return nil
	}
	name := h.Sources()[0].Name
	if errors.Is(err, xdp.ErrGone) {
		return message.Errorf(xdp.ErrGone, "interface %s was deleted or moved to another network namespace", name)
	}
	return message.Errorf(ErrBlind, "%s is no longer captured: %w", name, err)
}

// attachAgain attaches the same programs again that drivers have lost, so the accounts continue. If
// that fails, the next check finds the hook blind.
func (w *Watch) attachAgain(lost []lostProgram) {
	if !w.inNamespace {
		return
	}
	for _, l := range lost {
		w.Hooks.WhileAttached(func() {
			for _, h := range w.Hooks.All {
				own, ok := h.(*probe.XDPHook)
				if !ok || own.Source.Sampler.ID != l.Sampler.ID {
					continue
				}
				what := attach.Lost(l.Name, l.Packets)
				if err := own.AttachAgain(); err != nil {
					w.Notice(fmt.Errorf("%s: attach it again: %w", what, err))
				} else {
					w.Notice(fmt.Errorf("%s: it is attached again", what))
				}
			}
		})
	}
}
