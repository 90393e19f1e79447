package watch

import (
	"errors"
	"fmt"
	"os"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
)

// A filterRequest is a call of SetFilter for the goroutine of a Watch.
type filterRequest struct {
	expression string
	done       chan error // gets the result
}

// SetFilter replaces the filter at all hooks: see Followed.setFilter. Any goroutine may call it.
func (w *Watch) SetFilter(expression string) error {
	r := filterRequest{expression, make(chan error, 1)}
	select {
	case w.requests <- r:
		return <-r.done
	case <-w.Done:
		return os.ErrClosed
	}
}

// A change is the exchange of the programs of an interface for those with the next filter.
type change struct {
	*captured
	point probe.Point // with the next filter
	next  []int       // the numbers of its hooks after the exchange
}

// setFilter replaces the filter at all hooks. Each packet is decided by one of both filters. If the
// next one cannot be compiled or loaded for one of the interfaces, all keep the former one. Each
// source has one filter, so the present sources end, and new ones begin.
func (f *Followed) setFilter(expression string) error {
	next := *f.Options
	next.Filter, next.FilterProgram = expression, nil
	// Checks the expression even if no interface is captured now.
	if err := next.Compile(new(probe.Point)); err != nil {
		return err
	}
	var changes []*change
	for _, one := range f.all { // before the hooks are locked, because looking up names may take long
		if one.stopped {
			continue
		}
		c := &change{captured: one, point: probe.Point{Interface: one.ifi}}
		if err := next.Compile(&c.point); err != nil {
			return err
		}
		changes = append(changes, c)
	}
	err := os.ErrClosed // if the session was stopped
	f.Hooks.WhileAttached(func() { err = f.exchange(changes, &next) })
	return err
}

// exchange loads the programs of all changes, and then exchanges them. f.all gets one further
// entry, `former`, which has the ended sources of all interfaces.
func (f *Followed) exchange(changes []*change, next *probe.Options) error {
	f.Sampler.Arrival++ // because the new sources come after the former ones: see packet.Source
	for i, c := range changes {
		if err := f.prepare(c, next); err != nil {
			for _, begun := range changes[:i+1] { // also c, some of whose programs may be loaded
				f.Roster.Free(begun.next)
				err = errors.Join(err, begun.discard())
			}
			return err
		}
	}
	f.Options.Filter, f.Options.FilterProgram = next.Filter, nil
	former := &captured{stopped: true}
	var errs []error
	for _, c := range changes {
		if err := f.makeChange(c, former); err != nil {
			errs = append(errs, fmt.Errorf("%s keeps the former filter at one hook or more: %w", c.ifi.Name, err), c.discard())
		}
	}
	f.all = append(f.all, former)
	return errors.Join(append(errs, f.Sampler.AwaitEnd(), f.recordEnd(former))...)
}

// prepare loads the programs of an interface with the next filter.
func (f *Followed) prepare(c *change, next *probe.Options) (err error) {
	c.next, err = f.loadAs(c.hooks, func(i int, slot, number uint32) error {
		return c.hooks[i].(probe.Exchanger).Prepare(f.Sampler, next, c.point, slot, number)
	})
	return err
}

// makeChange exchanges the programs of an interface. The numbers and sources that its hooks had are
// added to former, and c gets the new ones. After an error, the hooks before the failed one have
// the next filter, and the others keep the former one.
func (f *Followed) makeChange(c *change, former *captured) error {
	rest := c.sources // of the hooks that are not exchanged yet
	for i, h := range c.hooks {
		ofHook := rest[:len(h.Sources())] // a part of c.sources, overwritten below
		rest = rest[len(ofHook):]
		sources, err := f.Roster.Exchange(h, c.next[i], f.origin(), func() error { return h.(probe.Exchanger).Exchange(f.Sampler) })
		if err != nil {
			f.Roster.Free(c.next[i:])
			return err
		}
		former.numbers, former.sources = append(former.numbers, c.numbers[i]), append(former.sources, ofHook...)
		c.numbers[i] = c.next[i]
		copy(ofHook, sources)
	}
	return nil
}

// discard releases programs that were not attached.
func (c *change) discard() error {
	var errs []error
	for _, h := range c.hooks {
		errs = append(errs, h.(probe.Exchanger).Discard())
	}
	return errors.Join(errs...)
}
