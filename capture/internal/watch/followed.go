package watch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// followPause is the shortest time between two searches for interfaces that have come.
const followPause = 50 * time.Millisecond

// Followed are the interfaces of a session whose sources come and go. With Options.Patterns or
// GiveWay, interfaces are found while the session runs; with FilterChanges alone they are
// Options.Interfaces. Only one goroutine at a time may call the methods.
type Followed struct {
	Options *probe.Options
	Roster  *probe.Roster
	Sampler *probe.Sampler
	Witness *Witness // nil until the first interfaces are captured
	Ledger  *probe.Ledger
	Passed  *atomic.Int64 // probe.Reader.Passed: up to this time the reader has taken all packets
	Hooks   *Hooks        // the hooks of these interfaces: all hooks of the session

	finder  *xdp.Discovery // nil = no interface comes or goes
	all     []*captured    // without those whose accounts are final: see retire
	Refused xdp.Retries    // the interfaces that could not be captured, and why
	yielded *yielded       // nil unless the session gives way
}

// captured is an interface that the session captures, or has captured until its records are read.
type captured struct {
	ifi     xdp.Interface
	hooks   []probe.Hook
	numbers []int // of each hook, by which its programs find it: see probe.Roster.Reserve
	sources []int // the indexes of all sources of the hooks, in the roster
	stopped bool  // the hooks are detached; the interface may still exist
}

// OpenFollowed compiles the filter. If interfaces come and go (comes), it begins to listen for
// them, and if the session gives way (givesWay), for programs of others that the kernel refuses.
// The caller closes the returned value, even after an error.
func OpenFollowed(f Followed, comes, givesWay bool) (*Followed, error) {
	if err := f.Options.Compile(new(probe.Point)); err != nil {
		return nil, err
	}
	f.Refused = make(xdp.Retries)
	if !comes {
		return &f, nil
	}
	var err error
	if f.finder, err = xdp.OpenDiscovery(); err != nil {
		return nil, err
	}
	if givesWay {
		f.yielded, err = openYielded()
	}
	return &f, err
}

// StartFirst begins to capture on the interfaces that exist. It fails if one of Options.Interfaces
// cannot be captured, or if interfaces match and all of them are refused.
func (f *Followed) StartFirst() error {
	first, err := f.Options.NamedInterfaces()
	if err != nil {
		return err
	}
	if f.finder == nil {
		probe.SortLowestFirst(first, func(ifi xdp.Interface) int { return ifi.Index })
		for _, ifi := range first {
			if err := f.start(ifi); err != nil {
				return err
			}
		}
		return nil
	}
	named := make(map[int]bool)
	for _, ifi := range first {
		named[ifi.Index] = true
	}
	isWanted := func(index int, name string) bool { return !named[index] && f.isWanted(index, name) }
	_, found, withoutEthernet, err := f.finder.Find(isWanted)
	if err != nil {
		return err
	}
	f.omit(withoutEthernet)
	first = append(first, found...)
	probe.SortLowestFirst(first, func(ifi xdp.Interface) int { return ifi.Index })
	refusals := make([]error, len(first)) // nil = captured, or gone meanwhile
	for i, ifi := range first {
		err := f.start(ifi)
		if err != nil && named[ifi.Index] {
			return err
		}
		if err != nil && !errors.Is(err, xdp.ErrGone) {
			refusals[i] = err
			f.Refused.Add(ifi, err)
		}
	}
	f.follow(onlyChanges) // startBelow has stopped interfaces above others: this starts them again
	none := !slices.ContainsFunc(f.all, func(one *captured) bool { return !one.stopped })
	switch err := summarize(refusals); {
	case none && err != nil:
		return err
	case none:
		f.Options.Notice(fmt.Errorf("no interface among %s is up: waiting for one", probe.DescribePatterns(f.Options.Patterns, f.Options.Except)))
	}
	for i, err := range refusals {
		if err != nil {
			f.Options.Notice(fmt.Errorf("%s is not captured: %w", first[i].Name, err))
		}
	}
	return nil
}

// Close ends the search for interfaces. It does not detach hooks. f may be nil, but not in the
// other methods.
func (f *Followed) Close() error {
	if f == nil || f.finder == nil {
		return nil
	}
	f.yielded.close()
	return f.finder.Close()
}

// isWanted reports whether an interface should be captured and is not captured yet.
func (f *Followed) isWanted(index int, name string) bool {
	return f.Options.MatchesInterface(name) &&
		!slices.ContainsFunc(f.all, func(one *captured) bool { return !one.stopped && one.ifi.Index == index })
}

// Values of follow's parameter.
const (
	onlyChanges = false // interfaces that have come or gone
	checkAll    = true  // also the programs on all others
)

// follow begins to capture on interfaces that have come, and ends the capture on interfaces that
// have gone. With checkAll it also ends it on the others that are blind: whose hooks no longer get
// packets.
func (f *Followed) follow(all bool) {
	existing, found, withoutEthernet, err := f.finder.Find(f.isWanted)
	if err != nil {
		f.Options.Notice(err)
		return
	}
	f.omit(withoutEthernet)
	f.Hooks.WhileAttached(func() {
		f.stop(func(one *captured) error {
			if !all && existing[one.ifi.Index] {
				return nil
			}
			return one.blindness()
		})
		f.retire()
		f.Refused.Keep(existing)
	})
	probe.SortLowestFirst(found, func(ifi xdp.Interface) int { return ifi.Index })
	for _, ifi := range found {
		// Each has a call of its own, so that the end of the session waits for at most one
		// interface.
		f.Hooks.WhileAttached(func() { f.StartLate(ifi) })
	}
}

// StartLate begins to capture on an interface that has come during the session, and gives a notice.
// If the interface cannot be captured, the notice has the reason, once for each reason. StartLate
// does nothing for an interface that was refused a short time ago. It gives no notice of one that
// has gone already: the user did not name it.
func (f *Followed) StartLate(ifi xdp.Interface) {
	if f.Refused.TooEarly(ifi) {
		return
	}
	if err := f.start(ifi); err != nil {
		if !errors.Is(err, xdp.ErrGone) && f.Refused.Add(ifi, err) {
			f.Options.Notice(fmt.Errorf("%s is not captured: %w", ifi.Name, err))
		}
		return
	}
	delete(f.Refused, ifi.Index)
	one := f.all[len(f.all)-1] // start has added it
	ways := f.Roster.Ways(one.sources)
	f.Options.Notice(cmp.Or(f.endGap(one, ways), fmt.Errorf("%s has come and is captured, too: %s", ifi.Name, ways)))
}

// omit gives a notice of interfaces without Ethernet headers, once for each interface.
func (f *Followed) omit(withoutEthernet []xdp.Interface) {
	var names []string
	for _, ifi := range withoutEthernet {
		if f.Refused.Add(ifi, errNoEthernet) {
			names = append(names, ifi.Name)
		}
	}
	if names != nil {
		f.Options.Notice(fmt.Errorf("not captured: %s: %w", strings.Join(names, ", "), errNoEthernet))
	}
}

// errNoEthernet is the reason why interfaces such as tun or WireGuard are not captured.
var errNoEthernet = errors.New("packets without an Ethernet header are not understood")

// start begins to capture on an interface. The kernel attaches no program below an interface that
// runs one: on a bridge's or bond's port, or on the interface of a VLAN. If the program above is
// the session's own, start detaches it, and follow attaches it again later. It stays attached if
// detaching would not help: if a program of others is above, too, or if the driver has recently
// refused a program below.
func (f *Followed) start(ifi xdp.Interface) error {
	err := f.startOnce(ifi)
	if errors.Is(err, xdp.ErrBelow) && f.finder != nil {
		err = f.startBelow(ifi, err)
	}
	if err != nil && xdp.HasGone(ifi.Index) {
		err = message.Errorf(xdp.ErrGone, "interface %s has gone: %w", ifi.Name, err)
	}
	return err
}

// startBelow begins to capture on an interface that was refused because it is below another one.
func (f *Followed) startBelow(ifi xdp.Interface, refused error) error {
	if byDriver := f.Refused.ByDriver(ifi); byDriver != nil {
		return byDriver
	}
	upper, ofOthers, err := ifi.Obstructed(f.isOwn)
	if ofOthers {
		return f.Options.NotAtXDP(ifi, attach.Below(ifi, upper))
	}
	var above []int
	if err == nil {
		above, err = ifi.Above()
	}
	if err != nil {
		return message.Errorf(xdp.ErrBelow, "%w: %w", refused, err)
	}
	cleared := f.stop(func(one *captured) error {
		if !slices.Contains(above, one.ifi.Index) {
			return nil
		}
		f.finder.Notify() // follow, which is called at once, finds it again
		return fmt.Errorf("%s is captured anew, because %s has come below it", one.ifi.Name, ifi.Name)
	})
	if !cleared {
		return refused
	}
	return f.startOnce(ifi)
}

// startOnce compiles the filter for an interface, loads and attaches the programs, lists the
// sources in the roster, and adds the interface to f.all. After an error it adds the interface only
// if programs have seen packets, as stopped.
func (f *Followed) startOnce(ifi xdp.Interface) error {
	p := probe.Point{Interface: ifi, Yielded: f.yielded.of(ifi.Index) != nil}
	if err := f.Options.Compile(&p); err != nil {
		return err
	}
	one := &captured{ifi: ifi}
	var err error
	if one.hooks, err = f.Options.ChooseAt(p); err == nil {
		err = f.load(one)
	}
	if err == nil {
		one.sources, err = f.Roster.Add(one.hooks, one.numbers, f.origin())
	}
	switch {
	case err == nil:
	case len(one.sources) > 0: // some programs have seen packets, whose account is kept
		one.stopped = true
		err = errors.Join(err, f.Sampler.EndAll(one.hooks), f.recordEnd(one))
	default:
		f.Roster.Free(one.numbers)
		return errors.Join(err, probe.DetachAll(one.hooks), probe.CloseAll(one.hooks))
	}
	f.all, f.Hooks.All = append(f.all, one), append(f.Hooks.All, one.hooks...)
	return err
}

// origin returns the properties of the sources that come now.
func (f *Followed) origin() probe.Origin {
	c := probe.Origin{Arrival: f.Sampler.Arrival}
	if f.Options.FilterChanges {
		c.Filter = f.Options.Filter
	}
	return c
}

// load loads the programs for an interface, and numbers its arrival.
func (f *Followed) load(one *captured) (err error) {
	f.Sampler.Arrival++
	one.numbers, err = f.loadAs(one.hooks, func(i int, slot, number uint32) error { return one.hooks[i].Load(f.Sampler, slot, number) })
	return err
}

// loadAs reserves numbers for the hooks of an interface, and calls load for each hook i, with its
// first slot and its number. The caller frees the numbers, even after an error.
func (f *Followed) loadAs(hooks []probe.Hook, load func(i int, slot, number uint32) error) (numbers []int, err error) {
	if numbers, err = f.Roster.Reserve(hooks); err != nil {
		return nil, err
	}
	for i, number := range numbers {
		slots := f.Roster.Slots(number)
		if err := f.Sampler.PrepareSlots(number, slots, f.Roster.RecordLost); err != nil {
			return numbers, err
		}
		if err := load(i, uint32(slots[0]), uint32(number)); err != nil {
			return numbers, err
		}
	}
	return numbers, nil
}

// isOwn reports whether an XDP program is the session's own.
func (f *Followed) isOwn(p xdp.Program) bool {
	return f.Roster.Has(func(src *packet.Source) bool { return src.Hook == packet.XDP && src.Sampler.ID == p.ID })
}

// summarize returns the first of the errors of many interfaces, because the others are mostly like
// it and there may be hundreds; nil if there is no error.
func summarize(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	}
	return fmt.Errorf("none of %d interfaces can be captured: %w", len(failed), failed[0])
}
