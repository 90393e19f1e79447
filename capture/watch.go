package capture

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/discovery"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// watchInterval is how often a session checks its hooks and the cards' clocks.
const watchInterval = time.Second

// hooked are the hooks of a session.
type hooked struct {
	mu       sync.Mutex // held while hooks are checked, added and detached
	all      []hook
	detached atomic.Bool // all hooks are detached, and no program of the session runs any more
}

// whileAttached calls do unless the session was stopped. Stop waits until it returns.
func (h *hooked) whileAttached(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.detached.Load() {
		do()
	}
}

// A watch finds out which hooks of a session have gone blind. The kernel does not notify a process
// that its program was detached or that a traced program was replaced, so the watch polls.
type watch struct {
	hooks      []hook // those that still see packets
	isHome     bool   // its goroutine is in the session's network namespace
	quit, done chan struct{}
}

// startWatch checks the hooks at once, and then regularly in a goroutine. It returns an error if a
// hook is already blind.
func (s *Session) startWatch() error {
	w := &watch{hooks: s.hooks.all, quit: make(chan struct{}), done: make(chan struct{})}
	if s.comings != nil {
		w.hooks = nil // they are checked with their interfaces
	}
	if blind := w.look(); len(blind) > 0 {
		return errors.Join(blind...)
	}
	s.watch = w
	home, err := netns.Get()
	entered := make(chan error, 1)
	go func() {
		defer close(w.done)
		if err == nil {
			err = errors.Join(discovery.Enter(home), home.Close())
		}
		if w.isHome = err == nil; s.comings == nil {
			err = nil // it only attaches lost programs again
		}
		if entered <- err; err == nil {
			s.keepWatch(w.quit)
		}
	}()
	return <-entered
}

// keepWatch checks the hooks and the cards' clocks regularly, and looks for interfaces that come
// and go, until quit is closed.
func (s *Session) keepWatch(quit <-chan struct{}) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	var changes <-chan struct{} // nil where no interface comes or goes
	var refused <-chan attach.Refusal
	if s.comings != nil {
		changes = s.comings.finder.Changed
		if y := s.comings.yielded; y != nil {
			refused = y.refused
		}
	}
	changed, rested := changes, (<-chan time.Time)(nil)
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
			if s.comings != nil {
				s.comings.follow(true)
				s.comings.traceOthers()
			} else {
				s.checkHooks()
			}
			measureClocks(s.roster.cards(), s.notice)
			s.attachAgain(s.witness.look())
		case r := <-refused:
			s.comings.giveWay(r)
		case <-rested:
			changed, rested = changes, nil
		case <-changed:
			s.comings.follow(false)
			changed, rested = nil, time.After(comingPause)
		}
	}
}

// close joins the goroutine.
func (w *watch) close() {
	close(w.quit)
	<-w.done
}

// checkHooks notes which hooks have gone blind. The session continues while at least one hook sees
// packets; when it ends, its error says which hooks went blind.
func (s *Session) checkHooks() {
	var blind []error
	goesOn := true
	s.hooks.whileAttached(func() {
		blind = s.watch.look()
		goesOn = len(s.watch.hooks) > 0
	})
	for _, err := range blind {
		s.fail(err)
		if goesOn {
			s.notice(err)
		}
	}
	if !goesOn {
		s.Stop()
	}
}

// look returns errors for the hooks that have gone blind since the last call.
func (w *watch) look() (blind []error) {
	w.hooks = slices.DeleteFunc(slices.Clone(w.hooks), func(h hook) bool {
		err := whyBlind(h)
		// Several hooks have the same error if their interface is gone.
		if err != nil && !slices.ContainsFunc(blind, func(other error) bool { return other.Error() == err.Error() }) {
			blind = append(blind, err)
		}
		return err != nil
	})
	return blind
}

// whyBlind returns why a hook no longer sees its packets, or nil.
func whyBlind(h hook) error {
	err := h.check()
	if err == nil {
		return nil
	}
	name := h.sources()[0].Name
	if errors.Is(err, ErrInterfaceGone) {
		return errkind.Errorf(ErrInterfaceGone, "interface %s was deleted or moved to another network namespace", name)
	}
	return errkind.Errorf(ErrBlind, "%s is no longer captured: %w", name, err)
}

// attachAgain attaches programs again that their drivers have lost. They and their maps stay the
// same, so the accounts go on. If that fails, the next check finds the hook blind.
func (s *Session) attachAgain(lost []lostProgram) {
	if !s.watch.isHome {
		return
	}
	for _, l := range lost {
		s.hooks.whileAttached(func() {
			for _, h := range s.hooks.all {
				own, ok := h.(*xdpHook)
				if !ok || own.source.Sampler.ID != l.Sampler.ID {
					continue
				}
				what := attach.Lost(l.Name, l.packets)
				if err := own.attached.Again(); err != nil {
					s.notice(fmt.Errorf("%s: attach it again: %w", what, err))
				} else {
					s.notice(fmt.Errorf("%s: it is attached again", what))
				}
			}
		})
	}
}

// hasGone reports whether an interface has left the namespace. What the kernel says to an attempt
// to attach to it does not tell.
func hasGone(index int) bool {
	w, err := xdp.WatchHook(index)
	if err != nil {
		return false
	}
	defer w.Close()
	return errors.Is(w.CheckExists(), ErrInterfaceGone)
}
