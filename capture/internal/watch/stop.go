package watch

import (
	"errors"
	"slices"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// stop ends the capture on the interfaces for which reason returns one, and gives a notice of it.
// It returns false if there are none.
func (f *Followed) stop(reason func(*captured) error) bool {
	stopped := false
	for _, one := range f.all {
		if one.gone {
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
		one.gone, stopped = true, true
	}
	if !stopped {
		return false
	}
	if err := f.Sampler.AwaitEnd(); err != nil {
		f.Options.Notice(err)
		return true
	}
	for _, one := range f.all {
		if !one.gone {
			continue
		}
		if err := f.markStopped(one); err != nil {
			f.Options.Notice(err)
		}
	}
	return true
}

// markStopped records in the roster that all programs of an interface have ended.
func (f *Followed) markStopped(one *captured) error {
	now, err := machine.Monotonic()
	if err == nil {
		f.Roster.Leave(one.sources, now)
	}
	return err
}

// retire closes the programs of interfaces that have gone, and makes their accounts final, if the
// reader has read all their records.
func (f *Followed) retire() {
	f.all = slices.DeleteFunc(f.all, func(one *captured) bool {
		if !one.gone {
			return false
		}
		areFinal, passed := true, f.Passed.Load()
		for _, i := range one.sources {
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

// blindness returns why an interface is no longer captured, or nil.
func (c *captured) blindness() error {
	for _, h := range c.hooks {
		if err := whyBlind(h); err != nil {
			return err
		}
	}
	return nil
}
