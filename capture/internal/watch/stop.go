package watch

import (
	"errors"
	"slices"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// stop ends the capture on the interfaces for which reason returns one, and gives a notice of it.
// Their accounts become final later: see retire. It returns false if there are none.
func (f *Followed) stop(reason func(*captured) error) bool {
	hasStopped := false
	for _, one := range f.all {
		if one.stopped {
			continue
		}
		why := reason(one)
		if why == nil {
			continue
		}
		f.Options.Notice(why)
		// The kernel has detached the programs of an interface that has gone.
		if err := probe.DetachAll(one.hooks); err != nil && !errors.Is(why, xdp.ErrGone) {
			f.Options.Notice(err)
		}
		one.stopped, hasStopped = true, true
	}
	if !hasStopped {
		return false
	}
	if err := f.Sampler.AwaitEnd(); err != nil {
		f.Options.Notice(err)
		return true
	}
	// Also those that stopped earlier, because AwaitEnd may have failed then. An end that is
	// recorded already keeps its time.
	for _, one := range f.all {
		if !one.stopped {
			continue
		}
		if err := f.recordEnd(one); err != nil {
			f.Options.Notice(err)
		}
	}
	return true
}

// recordEnd records in the roster that all programs of an interface have ended.
func (f *Followed) recordEnd(one *captured) error {
	now, err := machine.Monotonic()
	if err == nil {
		f.Roster.Leave(one.sources, now)
	}
	return err
}

// retire closes the programs of the stopped interfaces whose records the reader has all read, makes
// their accounts final, and removes them from f.all and f.Hooks.
func (f *Followed) retire() {
	f.all = slices.DeleteFunc(f.all, func(one *captured) bool {
		if !one.stopped {
			return false
		}
		areFinal, passed := true, f.Passed.Load()
		for _, i := range one.sources {
			// passed is how far the reader has read, and Published are its counts of the source.
			// After an error, the next call tries again. Sources that are retired already stay so.
			retired, err := f.Roster.Retire(i, passed, f.Ledger.Published(i))
			areFinal = areFinal && retired && err == nil
		}
		if !areFinal {
			return false
		}
		f.Hooks.All = slices.DeleteFunc(f.Hooks.All, func(h probe.Hook) bool { return slices.Contains(one.hooks, h) })
		if err := probe.CloseAll(one.hooks); err != nil {
			f.Options.Notice(err)
		}
		f.Roster.Free(one.numbers)
		return true
	})
}

// blindness returns why a hook of an interface is blind: why it no longer gets packets. nil = all
// hooks get theirs.
func (c *captured) blindness() error {
	for _, h := range c.hooks {
		if err := whyBlind(h); err != nil {
			return err
		}
	}
	return nil
}
