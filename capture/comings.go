package capture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/account"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/discovery"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// comingPause is the least time between two looks for interfaces that have come.
const comingPause = 50 * time.Millisecond

// comings are the interfaces that a session with Options.Patterns or GiveWay has found. One
// goroutine at a time calls the methods.
type comings struct {
	sampler *sampler // with the session's options and roster
	witness *witness // nil until the first interfaces are captured
	ledger  *account.Ledger
	passed  *atomic.Int64 // how far the reader has read, in CLOCK_MONOTONIC ns
	hooks   *hooked       // the session's, of which all are of these interfaces

	finder  *discovery.Discovery
	all     []*coming
	refused discovery.Refusals
	yielded *yielded // nil without Options.GiveWay
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
	if err := s.options.compile(new(point)); err != nil {
		return err
	}
	s.comings = &comings{sampler: s.sampler, ledger: s.ledger, passed: &s.reader.passed, hooks: &s.hooks, refused: make(discovery.Refusals)}
	if s.comings.finder, err = discovery.Open(); err != nil {
		return err
	}
	if s.options.GiveWay {
		if s.comings.yielded, err = openYielded(); err != nil {
			return err
		}
	}
	return s.comings.meetFirst()
}

func (c *comings) options() *Options { return c.sampler.options }
func (c *comings) roster() *roster   { return c.sampler.roster }
func (c *comings) notice(err error)  { c.sampler.options.notice(err) }

func (c *comings) meetFirst() error {
	first, err := c.options().namedInterfaces()
	if err != nil {
		return err
	}
	named := make(map[int]bool)
	for _, ifi := range first {
		named[ifi.Index] = true
	}
	_, found, err := c.finder.Find(func(index int, name string) bool { return !named[index] && c.isWanted(index, name) })
	if err != nil {
		return err
	}
	first = append(first, found...)
	lowestFirst(first, func(ifi xdp.Interface) int { return ifi.Index })
	var failed []error
	for _, ifi := range first {
		err := c.come(ifi)
		if err != nil && named[ifi.Index] {
			return err
		}
		if errors.Is(err, ErrInterfaceGone) {
			err = nil
		}
		if failed = append(failed, err); err != nil {
			c.refused.Add(ifi, err)
		}
	}
	c.follow(false) // those that had to go because others came below them come again
	none := !slices.ContainsFunc(c.all, func(one *coming) bool { return !one.gone })
	switch err := oneFor(failed); {
	case none && err != nil:
		return err
	case none:
		c.notice(fmt.Errorf("no interface among %s is up: waiting for one", c.options().followed()))
	}
	for i, err := range failed {
		if err != nil {
			c.notice(fmt.Errorf("%s is not captured: %w", first[i].Name, err))
		}
	}
	return nil
}

// close releases what finds interfaces.
func (c *comings) close() error {
	if c == nil || c.finder == nil {
		return nil
	}
	c.yielded.close()
	return c.finder.Close()
}

// isWanted reports whether an interface is to be captured, and is not yet.
func (c *comings) isWanted(index int, name string) bool {
	return c.options().isFollowed(name) &&
		!slices.ContainsFunc(c.all, func(one *coming) bool { return !one.gone && one.ifi.Index == index })
}

// follow begins to capture on interfaces that have come, and ends it for those that have gone. With
// `all` it also checks the programs of the others.
func (c *comings) follow(all bool) {
	there, found, err := c.finder.Find(c.isWanted)
	if err != nil {
		c.notice(err)
		return
	}
	c.hooks.whileAttached(func() {
		c.leave(func(one *coming) error {
			if !all && there[one.ifi.Index] {
				return nil
			}
			return one.blindness()
		})
		c.retire()
		c.refused.Keep(there)
	})
	lowestFirst(found, func(ifi xdp.Interface) int { return ifi.Index })
	for _, ifi := range found {
		// Stop waits for one interface at most.
		c.hooks.whileAttached(func() { c.comeLate(ifi) })
	}
}

// comeLate begins to capture on an interface that has come, and tells that. It does nothing if the
// interface was refused a short time ago. It gives a notice of a new reason why one cannot be
// captured, but says nothing of one that has gone already, because nobody asked for that by name.
func (c *comings) comeLate(ifi xdp.Interface) {
	if c.refused.Stand(ifi) {
		return
	}
	if err := c.come(ifi); err != nil {
		if !errors.Is(err, ErrInterfaceGone) && c.refused.Add(ifi, err) {
			c.notice(fmt.Errorf("%s is not captured: %w", ifi.Name, err))
		}
		return
	}
	delete(c.refused, ifi.Index)
	came := c.all[len(c.all)-1]
	ways := c.roster().ways(came.sources)
	c.notice(cmp.Or(c.arrive(came, ways), fmt.Errorf("%s has come and is captured, too: %s", ifi.Name, ways)))
}

// come begins to capture on an interface. The kernel attaches no program below an interface that
// runs one. If the program above is the session's own, the session detaches it, and attaches it
// again later. It leaves its program there if somebody else runs one above, too, or if the driver
// has recently refused the one below, because detaching would not help then.
func (c *comings) come(ifi xdp.Interface) error {
	err := c.comeOnce(ifi)
	if errors.Is(err, xdp.ErrBelow) {
		err = c.comeBelow(ifi, err)
	}
	if err != nil && hasGone(ifi.Index) {
		err = errkind.Errorf(ErrInterfaceGone, "interface %s has gone: %w", ifi.Name, err)
	}
	return err
}

// comeBelow begins to capture on an interface that was refused because it is below another one.
func (c *comings) comeBelow(ifi xdp.Interface, refused error) error {
	if byDriver := c.refused.ByDriver(ifi); byDriver != nil {
		return byDriver
	}
	others, ok, err := ifi.Obstructed(c.isOwn)
	if ok {
		return attach.Below(ifi, others)
	}
	var above []int
	if err == nil {
		above, err = ifi.Above()
	}
	if err != nil {
		return errkind.Errorf(xdp.ErrBelow, "%w: %w", refused, err)
	}
	cleared := c.leave(func(one *coming) error {
		if !slices.Contains(above, one.ifi.Index) {
			return nil
		}
		c.finder.Notify() // the next look, which follows at once, finds it again
		return fmt.Errorf("%s is captured anew, because %s has come below it", one.ifi.Name, ifi.Name)
	})
	if !cleared {
		return refused
	}
	return c.comeOnce(ifi)
}

func (c *comings) comeOnce(ifi xdp.Interface) error {
	p := point{ifi: ifi, yielded: c.yielded.has(ifi.Index)}
	if err := c.options().compile(&p); err != nil {
		return err
	}
	one := &coming{ifi: ifi}
	var err error
	if one.hooks, err = c.options().hooksAt(p); err == nil {
		err = c.load(one)
	}
	if err == nil {
		one.sources, err = c.roster().add(one.hooks, one.numbers, c.sampler.arrival, c.sampler.counted, c.sampler.endHooks)
	}
	switch {
	case err == nil:
	case len(one.sources) > 0: // some programs have seen packets
		one.gone = true
		err = errors.Join(err, c.sampler.endHooks(one.hooks), c.haveLeft(one))
	default:
		c.roster().free(one.numbers)
		return errors.Join(err, detachHooks(one.hooks), closeHooks(one.hooks))
	}
	c.all, c.hooks.all = append(c.all, one), append(c.hooks.all, one.hooks...)
	return err
}

// load loads the programs for an interface.
func (c *comings) load(one *coming) (err error) {
	c.sampler.arrival++
	if one.numbers, err = c.roster().reserve(one.hooks); err != nil {
		return err
	}
	for i, h := range one.hooks {
		number := one.numbers[i]
		if err := c.sampler.prepareSlots(number); err != nil {
			return err
		}
		if err := h.load(c.sampler, uint32(number*c.roster().perHook), uint32(number)); err != nil {
			return err
		}
	}
	return nil
}

// isOwn reports whether an XDP program is the session's own.
func (c *comings) isOwn(p xdp.Program) bool {
	return c.roster().has(func(src *Source) bool { return src.Hook == XDP && src.Sampler.ID == p.ID })
}

// leave detaches the programs on interfaces whose capture ends, and returns whether there are any.
// reason returns why the capture of an interface ends; nil = it goes on.
func (c *comings) leave(reason func(*coming) error) bool {
	left := false
	for _, one := range c.all {
		if one.gone {
			continue
		}
		why := reason(one)
		if why == nil {
			continue
		}
		c.notice(why)
		// An interface that has gone takes its programs with it.
		if err := detachHooks(one.hooks); err != nil && !errors.Is(why, ErrInterfaceGone) {
			c.notice(err)
		}
		one.gone, left = true, true
	}
	if !left {
		return false
	}
	if err := c.sampler.barrier.Wait(); err != nil {
		c.notice(err)
		return true
	}
	for _, one := range c.all {
		if !one.gone {
			continue
		}
		if err := c.haveLeft(one); err != nil {
			c.notice(err)
		}
	}
	return true
}

// haveLeft notes that no program of an interface runs any more.
func (c *comings) haveLeft(one *coming) error {
	now, err := machine.Monotonic()
	if err == nil {
		c.roster().leave(one.sources, now)
	}
	return err
}

// retire closes the programs of interfaces that have gone, and makes their accounts final, once all
// that they sent was read.
func (c *comings) retire() {
	c.all = slices.DeleteFunc(c.all, func(one *coming) bool {
		if !one.gone {
			return false
		}
		done, passed := true, c.passed.Load()
		for _, i := range one.sources {
			retired, err := c.roster().retire(i, passed, c.ledger.Read(i), c.sampler.counted)
			done = done && retired && err == nil
		}
		if !done {
			return false
		}
		c.hooks.all = slices.DeleteFunc(c.hooks.all, func(h hook) bool { return slices.Contains(one.hooks, h) })
		if err := closeHooks(one.hooks); err != nil {
			c.notice(err)
		}
		c.roster().free(one.numbers)
		return true
	})
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
