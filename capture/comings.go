package capture

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/clock"
	"github.com/xdpcap/xdpcap/internal/discovery"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// comingPause is the least time between two looks for interfaces that have come.
const comingPause = 50 * time.Millisecond

// comings are the interfaces that a session with Options.Patterns has found.
type comings struct {
	finder  *discovery.Discovery
	all     []*coming
	refused discovery.Refusals
}

// A coming is an interface that was found, with its hooks.
type coming struct {
	ifi     xdp.Interface
	hooks   []hook
	numbers []int // of the hooks, in the roster
	sources []int // in the roster
	gone    bool  // the hooks are detached
}

// meetFirst begins to capture on the interfaces that exist. It fails if one of Options.Interfaces
// cannot be captured, or if interfaces match and none of them can.
func (s *Session) meetFirst() (err error) {
	o := &s.options
	if err := o.compile(new(point)); err != nil {
		return err
	}
	s.comings = &comings{refused: make(discovery.Refusals)}
	if s.comings.finder, err = discovery.Open(); err != nil {
		return err
	}
	first, err := o.namedInterfaces()
	if err != nil {
		return err
	}
	named := make(map[int]bool)
	for _, ifi := range first {
		named[ifi.Index] = true
	}
	_, found, err := s.comings.finder.Find(func(index int, name string) bool { return !named[index] && s.isWanted(index, name) })
	if err != nil {
		return err
	}
	first = append(first, found...)
	lowestFirst(first, func(ifi xdp.Interface) int { return ifi.Index })
	var failed []error
	for _, ifi := range first {
		err := s.come(ifi)
		if err != nil && named[ifi.Index] {
			return err
		}
		if errors.Is(err, ErrInterfaceGone) {
			err = nil
		}
		if failed = append(failed, err); err != nil {
			s.comings.refused.Add(ifi, err)
		}
	}
	s.follow(false) // those that had to go because others came below them come again
	none := !slices.ContainsFunc(s.comings.all, func(c *coming) bool { return !c.gone })
	switch err := oneFor(failed); {
	case none && err != nil:
		return err
	case none:
		s.notice(fmt.Errorf("no interface among %s is up: waiting for one", o.followed()))
	}
	for i, err := range failed {
		if err != nil {
			s.notice(fmt.Errorf("%s is not captured: %w", first[i].Name, err))
		}
	}
	return nil
}

// close releases what finds interfaces.
func (c *comings) close() error {
	if c.finder == nil {
		return nil
	}
	return c.finder.Close()
}

// has tells whether the interface with this index is captured.
func (c *comings) has(index int) bool {
	return slices.ContainsFunc(c.all, func(c *coming) bool { return !c.gone && c.ifi.Index == index })
}

// isWanted tells whether an interface is to be captured, and is not yet.
func (s *Session) isWanted(index int, name string) bool {
	return s.options.isFollowed(name) && !s.comings.has(index)
}

// followInterfaces takes notice of interfaces that come and go, until quit is closed.
func (s *Session) followInterfaces(quit <-chan struct{}) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	changed, rested := s.comings.finder.Changed, (<-chan time.Time)(nil)
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
			s.follow(true)
			measureClocks(s.roster.cards(), s.notice)
		case <-rested:
			changed, rested = s.comings.finder.Changed, nil
		case <-changed:
			s.follow(false)
			changed, rested = nil, time.After(comingPause)
		}
	}
}

// follow begins to capture on interfaces that have come, and ends it for those that have gone. With
// `all` it also checks the programs of the others.
func (s *Session) follow(all bool) {
	there, found, err := s.comings.finder.Find(s.isWanted)
	if err != nil {
		s.notice(err)
		return
	}
	s.whileAttached(func() {
		s.leave(func(c *coming) error {
			if !all && there[c.ifi.Index] {
				return nil
			}
			return c.blindness()
		})
		s.retire()
		s.comings.refused.Keep(there)
	})
	lowestFirst(found, func(ifi xdp.Interface) int { return ifi.Index })
	for _, ifi := range found {
		// Stop waits for one interface at most.
		s.whileAttached(func() { s.comeLate(ifi) })
	}
}

// comeLate begins to capture on an interface that has come, and tells that. It does nothing if the
// interface was refused a short time ago.
func (s *Session) comeLate(ifi xdp.Interface) {
	if s.comings.refused.Stand(ifi) {
		return
	}
	if err := s.come(ifi); err != nil {
		s.refuse(ifi, err)
		return
	}
	delete(s.comings.refused, ifi.Index)
	came := s.comings.all[len(s.comings.all)-1]
	s.notice(fmt.Errorf("%s has come and is captured, too: %s", ifi.Name, s.roster.ways(came.sources)))
}

// refuse notes why an interface cannot be captured, and gives a notice if it is a new reason. It
// says nothing of an interface that has gone already, because nobody asked for that by name.
func (s *Session) refuse(ifi xdp.Interface, err error) {
	if !errors.Is(err, ErrInterfaceGone) && s.comings.refused.Add(ifi, err) {
		s.notice(fmt.Errorf("%s is not captured: %w", ifi.Name, err))
	}
}

// come begins to capture on an interface. The kernel attaches no program below an interface that
// runs one. If the program above is the session's own, the session detaches it, and attaches it
// again later. It leaves its program there if somebody else runs one above, too, or if the driver
// has recently refused the one below, because detaching would not help then.
func (s *Session) come(ifi xdp.Interface) error {
	err := s.comeOnce(ifi)
	if errors.Is(err, xdp.ErrBelow) {
		err = s.comeBelow(ifi, err)
	}
	if err != nil && hasGone(ifi.Index) {
		err = errkind.Errorf(ErrInterfaceGone, "interface %s has gone: %w", ifi.Name, err)
	}
	return err
}

// comeBelow begins to capture on an interface that was refused because it is below another one.
func (s *Session) comeBelow(ifi xdp.Interface, refused error) error {
	if byDriver := s.comings.refused.ByDriver(ifi); byDriver != nil {
		return byDriver
	}
	others, ok, err := ifi.Obstructed(s.isOwn)
	switch {
	case ok:
		return xdp.Below(ifi, others)
	case err != nil:
		return errkind.Errorf(xdp.ErrBelow, "%w: %w", refused, err)
	}
	cleared, err := s.clearAbove(ifi)
	switch {
	case cleared:
		return s.comeOnce(ifi)
	case err != nil:
		return errkind.Errorf(xdp.ErrBelow, "%w: %w", refused, err)
	}
	return refused
}

func (s *Session) comeOnce(ifi xdp.Interface) error {
	p := point{ifi: ifi}
	if err := s.options.compile(&p); err != nil {
		return err
	}
	c := &coming{ifi: ifi}
	var err error
	if c.hooks, err = s.options.hooksAt(p); err == nil {
		err = s.loadComing(c)
	}
	if err == nil {
		c.sources, err = s.roster.add(c.hooks, c.numbers, s.sampler.arrival, s.sampler.counted, s.endHooks)
	}
	switch {
	case err == nil:
	case len(c.sources) > 0: // some programs have seen packets
		c.gone = true
		err = errors.Join(err, s.endHooks(c.hooks), s.haveLeft(c))
	default:
		s.roster.free(c.numbers)
		return errors.Join(err, detachHooks(c.hooks), closeHooks(c.hooks))
	}
	s.comings.all, s.hooks = append(s.comings.all, c), append(s.hooks, c.hooks...)
	return err
}

// loadComing loads the programs for an interface.
func (s *Session) loadComing(c *coming) (err error) {
	s.sampler.arrival++
	if c.numbers, err = s.roster.reserve(c.hooks); err != nil {
		return err
	}
	for i, h := range c.hooks {
		number := c.numbers[i]
		if err := s.sampler.prepareSlots(number); err != nil {
			return err
		}
		if err := h.load(s.sampler, uint32(number*s.roster.perHook), uint32(number)); err != nil {
			return err
		}
	}
	return nil
}

// clearAbove ends the capture on the interfaces above one, and returns whether there were any. The
// next look, which follows at once, finds them again.
func (s *Session) clearAbove(ifi xdp.Interface) (cleared bool, err error) {
	above, err := ifi.Above()
	if err != nil {
		return false, err
	}
	return s.leave(func(c *coming) error {
		if !slices.Contains(above, c.ifi.Index) {
			return nil
		}
		s.comings.finder.Notify()
		return fmt.Errorf("%s is captured anew, because %s has come below it", c.ifi.Name, ifi.Name)
	}), nil
}

// isOwn tells whether an XDP program is the session's own.
func (s *Session) isOwn(p xdp.Program) bool {
	return s.roster.has(func(src *Source) bool { return src.Hook == XDP && src.Sampler.ID == p.ID })
}

// leave detaches the programs on interfaces whose capture ends, and returns whether there are any.
// reason returns why the capture of an interface ends; nil = it goes on.
func (s *Session) leave(reason func(*coming) error) bool {
	left := false
	for _, c := range s.comings.all {
		if c.gone {
			continue
		}
		why := reason(c)
		if why == nil {
			continue
		}
		s.notice(why)
		// An interface that has gone takes its programs with it.
		if err := detachHooks(c.hooks); err != nil && !errors.Is(why, ErrInterfaceGone) {
			s.notice(err)
		}
		c.gone, left = true, true
	}
	if !left {
		return false
	}
	if err := s.sampler.barrier.Wait(); err != nil {
		s.notice(err)
		return true
	}
	for _, c := range s.comings.all {
		if !c.gone {
			continue
		}
		if err := s.haveLeft(c); err != nil {
			s.notice(err)
		}
	}
	return true
}

// haveLeft notes that no program of an interface runs any more.
func (s *Session) haveLeft(c *coming) error {
	now, err := clock.Monotonic()
	if err == nil {
		s.roster.leave(c.sources, now)
	}
	return err
}

// retire closes the programs of interfaces that have gone, and makes their accounts final, once all
// that they sent was read.
func (s *Session) retire() {
	s.comings.all = slices.DeleteFunc(s.comings.all, func(c *coming) bool {
		if !c.gone {
			return false
		}
		done, passed := true, s.reader.passed.Load()
		for _, i := range c.sources {
			retired, err := s.roster.retire(i, passed, s.ledger.read(i), s.sampler.counted)
			done = done && retired && err == nil
		}
		if !done {
			return false
		}
		s.hooks = slices.DeleteFunc(s.hooks, func(h hook) bool { return slices.Contains(c.hooks, h) })
		if err := closeHooks(c.hooks); err != nil {
			s.notice(err)
		}
		s.roster.free(c.numbers)
		return true
	})
}
