package capture

import (
	"errors"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// watchInterval is how often a session looks at what can change beside it.
const watchInterval = time.Second

// A watch finds out which hooks of a session have gone blind. The kernel tells a process neither
// that its program was detached, nor that a traced program was replaced, so the watch asks.
type watch struct {
	hooks      []hook // those that still see packets
	quit, done chan struct{}
}

// startWatch checks the hooks now, and from now on in a goroutine. An error is that of a hook that
// is blind already.
func (s *Session) startWatch() error {
	w := &watch{hooks: s.hooks, quit: make(chan struct{}), done: make(chan struct{})}
	if blind := w.look(); len(blind) > 0 {
		return errors.Join(blind...)
	}
	s.watch = w
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-ticker.C:
				s.checkHooks()
				s.measureClocks()
			}
		}
	}()
	return nil
}

// close joins the goroutine.
func (w *watch) close() {
	close(w.quit)
	<-w.done
}

// checkHooks notes which hooks have gone blind. The session goes on as long as one of them sees
// packets, and ends with the errors of the others.
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

// look returns what has made hooks blind since it was called last.
func (w *watch) look() (blind []error) {
	w.hooks = slices.DeleteFunc(slices.Clone(w.hooks), func(h hook) bool {
		err := h.check()
		if err == nil {
			return false
		}
		if name := h.sources()[0].Name; errors.Is(err, ErrInterfaceGone) {
			err = xdp.Kind(ErrInterfaceGone, "interface %s was deleted or moved to another network namespace", name)
		} else {
			err = xdp.Kind(ErrBlind, "%s is not captured any more: %w", name, err)
		}
		// Several hooks are blind for one reason where their interface has gone.
		if !slices.ContainsFunc(blind, func(other error) bool { return other.Error() == err.Error() }) {
			blind = append(blind, err)
		}
		return true
	})
	return blind
}
