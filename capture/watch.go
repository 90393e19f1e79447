package capture

import (
	"errors"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// watchInterval is how often a session checks its hooks and the cards' clocks.
const watchInterval = time.Second

// A watch finds out which hooks of a session have gone blind. The kernel does not notify a process
// that its program was detached or that a traced program was replaced, so the watch polls.
type watch struct {
	hooks      []hook // those that still see packets
	quit, done chan struct{}
}

// startWatch checks the hooks at once, and then regularly in a goroutine. It returns an error if a
// hook is already blind.
func (s *Session) startWatch() error {
	w := &watch{hooks: s.hooks, quit: make(chan struct{}), done: make(chan struct{})}
	if s.comings != nil {
		w.hooks = nil // they are checked with their interfaces
	}
	if blind := w.look(); len(blind) > 0 {
		return errors.Join(blind...)
	}
	s.watch = w
	entered := make(chan error, 1)
	go func() {
		defer close(w.done)
		if s.comings != nil {
			err := s.comings.finder.Enter()
			entered <- err
			if err == nil {
				s.followInterfaces(w.quit)
			}
			return
		}
		entered <- nil
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-ticker.C:
				s.checkHooks()
				measureClocks(s.roster.cards(), s.notice)
			}
		}
	}()
	return <-entered
}

// close joins the goroutine.
func (w *watch) close() {
	close(w.quit)
	<-w.done
}

// checkHooks notes which hooks have gone blind. The session continues while at least one hook sees
// packets; when it ends, its error says which hooks went blind.
func (s *Session) checkHooks() {
	s.hooking.Lock()
	var blind []error
	if !s.detached.Load() {
		blind = s.watch.look()
	}
	goesOn := len(s.watch.hooks) > 0
	s.hooking.Unlock()
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

// blindness returns why an interface is no longer captured, or nil.
func (c *coming) blindness() error {
	for _, h := range c.hooks {
		if err := whyBlind(h); err != nil {
			return err
		}
	}
	return nil
}

// hasGone tells whether an interface has left the namespace. What the kernel says to an attempt to
// attach to it does not tell.
func hasGone(index int) bool {
	w, err := xdp.WatchHook(index)
	if err != nil {
		return false
	}
	defer w.Close()
	return errors.Is(w.CheckExists(), ErrInterfaceGone)
}

// whileAttached calls do unless the session was stopped. Stop waits until it returns.
func (s *Session) whileAttached(do func()) {
	s.hooking.Lock()
	defer s.hooking.Unlock()
	if !s.detached.Load() {
		do()
	}
}
