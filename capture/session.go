package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/watch"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Session is a running capture. Run and Packets belong to one goroutine; any goroutine may call
// the other methods. Close is called last.
type Session struct {
	options Options
	roster  *probe.Roster
	started time.Time
	sampler *probe.Sampler
	hooks   watch.Hooks
	ledger  *probe.Ledger
	reader  probe.Reader
	watch   *watch.Watch
	witness *watch.Witness

	// monitor is a *watch.Regulator if the session is adaptive, and otherwise a *watch.FirstLoss;
	// nil = Open has not come so far.
	monitor interface {
		Run()
		End()
		Close()
	}

	followed *watch.Followed // nil unless interfaces come and go

	stop sync.Once

	promiscuous probe.Promiscuous

	noticing sync.Mutex // held while the caller's Notice runs

	mu     sync.Mutex
	causes []error // causes of the session's end, and errors of detaching
}

// openTries is how many times Open chooses the size of the rings.
const openTries = 3

// Open attaches to the interfaces and starts capturing. After an error it is attached to none.
func Open(o Options) (s *Session, err error) {
	for range openTries {
		s, err = openOnce(o)
		// Another process of this user may have locked memory after the default size was chosen.
		if o.Buffer != 0 || !errors.Is(err, ErrLockedMemory) {
			break
		}
	}
	return s, err
}

func openOnce(o Options) (*Session, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	chosen := o.probe()
	points, err := chosen.Points()
	if err != nil {
		return nil, err
	}
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	hooks, err := chosen.Choose(points)
	if err != nil {
		return nil, errors.Join(err, probe.CloseAll(hooks))
	}
	// With StackDrops, Choose sets the verdicts that are lost packets at the exit of a program.
	o.Verdicts = chosen.Verdicts
	return open(o, hooks, ring.New)
}

// open makes a session of hooks, and of the rings that newRings returns. The hooks are closed with
// the session, or at once after an error.
func open(o Options, hooks []probe.Hook, newRings func(ring.Options) *ring.Set) (*Session, error) {
	s := &Session{options: o}
	s.hooks.All = hooks
	if o.Notice != nil {
		s.options.Notice = func(err error) {
			s.noticing.Lock()
			defer s.noticing.Unlock()
			o.Notice(err)
		}
	}
	if err := s.open(newRings); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) open(newRings func(ring.Options) *ring.Set) (err error) {
	// The kernel's types stay cached only while a caller holds them: without this, loading each
	// program could decode them again.
	defer runtime.KeepAlive(xdp.KernelTypes())
	s.roster = probe.NewRoster(s.hooks.All, s.options.slotsPerHook(), s.options.PodOf)
	if s.sampler, err = probe.New(s.options.probe(), s.roster, newRings(s.options.rings())); err != nil {
		return err
	}
	s.ledger = probe.NewLedger(s.roster.Size(), s.options.Count)
	if err := s.openReader(); err != nil {
		return err
	}
	if err := s.sampler.LoadAll(s.hooks.All); err != nil {
		return err
	}
	s.started = time.Now()
	// The kernel attaches no program below an interface that runs one, such as a bridge.
	order := slices.Clone(s.hooks.All)
	probe.SortLowestFirst(order, func(h probe.Hook) int { return h.Sources()[0].Index })
	if err := probe.AttachAll(order); err != nil {
		return err
	}
	s.roster.Describe(s.hooks.All)
	if s.options.sourcesChange() {
		c := watch.Followed{Options: s.sampler.Options, Roster: s.roster, Sampler: s.sampler, Ledger: s.ledger, Passed: &s.reader.Passed, Hooks: &s.hooks}
		if s.followed, err = watch.OpenFollowed(c, s.options.hooksChange(), s.options.GiveWay); err != nil {
			return err
		}
		if err := s.followed.StartFirst(); err != nil {
			return err
		}
	}
	isOn, isAuto := s.options.Promiscuous == PromiscuousOn, s.options.Promiscuous == PromiscuousAuto
	if isOn || isAuto && s.options.Sink {
		if s.promiscuous, err = probe.SetPromiscuous(s.roster.Sources(), isOn, s.notice); err != nil {
			return err
		}
	}
	if s.witness, err = watch.NewWitness(s.roster, s.notice); err != nil {
		return err
	}
	s.witness.Update()
	if s.followed != nil {
		s.followed.Witness = s.witness
	}
	w := watch.New(watch.Options{
		Hooks: &s.hooks, Followed: s.followed, Roster: s.roster, Witness: s.witness, Fail: s.fail, Notice: s.notice, Stop: s.Stop,
	})
	if blind := w.FindBlind(); len(blind) > 0 { // hooks that already see no packets: see ErrBlind
		return errors.Join(blind...)
	}
	if s.options.Adaptive {
		s.monitor = watch.NewRegulator(s.sampler, &s.reader)
	} else {
		s.monitor = s.newFirstLoss()
	}
	go s.monitor.Run()
	s.watch = w
	return w.Start() // last, because its goroutine may call Stop, which ends all others
}

func (s *Session) openReader() (err error) {
	r := &s.reader
	slots, _ := s.roster.Arrays()
	cards, weighted, follows := s.roster.Cards(), s.options.hasWeights(), s.options.sourcesChange()
	*r = probe.Reader{
		Rings:         s.sampler.Rings,
		Roster:        s.roster,
		Cards:         cards,
		Lost:          ring.Losses{Slots: slots},
		Ledger:        s.ledger,
		Immediate:     s.options.Immediate,
		SnapLen:       s.options.SnapLen,
		Weighted:      weighted,
		FinishesAll:   cards != nil || !weighted || follows,
		SourcesChange: follows,
		Detached:      &s.hooks.Detached,
		Stop:          s.Stop,
		Notice:        s.notice,
	}
	if r.Clock, err = machine.NewStamper(); err != nil {
		return err
	}
	// Outlets are the interfaces through which programs send packets; for a packet that the stack
	// throws away, its device is found in the same way.
	mayHaveOutlets := s.options.sourcesChange() && (slices.Contains(s.options.Hooks, Exit) || s.sampler.Options.AwaitsExits())
	if mayHaveOutlets || s.roster.Has(func(src *Source) bool { return src.Hook == Exit || src.HasExitFacts || src.Hook == StackDrop }) {
		if err := r.OpenOutlets(); err != nil {
			return err
		}
	}
	for _, h := range s.hooks.All {
		if drop, ok := h.(*probe.DropHook); ok {
			r.Words = drop.Words // those of any hook: all have the kernel's names
			break
		}
	}
	return r.Rings.Refresh()
}

// Sources returns the session's sources: the interfaces in the order of Options.Interfaces, each
// with its hooks. With Patterns or GiveWay they are in the order in which they came; of interfaces
// that came together, a bridge is after its ports. A source that has gone keeps its index until all
// outputs have forgotten it (see [Forgetter]), and 256 more have been forgotten after it: then a
// source that comes may replace it. Any goroutine may call it.
func (s *Session) Sources() []Source { return s.roster.Sources() }

// Gone returns the indexes of the sources whose interfaces have gone and whose accounts are final.
// Any goroutine may call it.
func (s *Session) Gone() []int { return s.roster.Gone(s.ledger.Final() != nil) }

// HasSwitchedOff reports whether attaching has switched off LRO or hardware GRO, which join packets
// at an interface before XDP. To switch that on again at the end of the session needs
// CAP_NET_ADMIN.
func (s *Session) HasSwitchedOff() bool {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	return slices.ContainsFunc(s.hooks.All, func(h probe.Hook) bool {
		own, ok := h.(*probe.XDPHook)
		return ok && own.HasSwitchedOff()
	})
}

// Options returns the options of Open with the defaults filled in.
func (s *Session) Options() Options { return s.options }

// whyEnded returns why the session has ended: io.EOF if the end was requested.
func (s *Session) whyEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reader.Err != io.EOF:
		return errors.Join(append(s.causes, s.reader.Err)...)
	case len(s.causes) > 0:
		return errors.Join(s.causes...)
	}
	return io.EOF
}

// fail adds an error to those that whyEnded returns. It ignores nil.
func (s *Session) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.causes = append(s.causes, err)
	s.mu.Unlock()
}

// notice calls Options.Notice. Any goroutine may call it.
func (s *Session) notice(err error) { s.options.notice(err) }

// Stop detaches from the interfaces and waits about 20 ms, until no sampling program runs any more.
// Run and Packets then hand over the packets that are still in the rings, and return.
func (s *Session) Stop() {
	s.stop.Do(func() {
		if s.sampler == nil {
			return // Open has failed before it attached any hook
		}
		s.hooks.Lock()
		defer s.hooks.Unlock()
		s.witness.Finish() // nil if Open has failed before it, which Finish allows
		s.fail(s.sampler.DrainTracers())
		if s.watch != nil {
			s.fail(errors.Join(s.watch.FindBlind()...)) // hooks that went blind in the last second
		}
		s.fail(s.promiscuous.Close())
		s.fail(probe.DetachAll(s.hooks.All))
		s.fail(s.sampler.AwaitEnd())
		s.hooks.Detached.Store(true)
		if s.monitor != nil {
			s.monitor.End()
		}
		s.sampler.Rings.Wake()
	})
}

// SetFilter replaces the filter of a session with Options.FilterChanges; "" = every packet. No
// packet is seen by both filters or by neither. Each interface gets a new source with the new
// Source.Filter; its former source goes: see Gone. If the filter cannot be compiled or loaded, the
// former one stays at all interfaces. If an interface has gone meanwhile, that is the error, and
// the filter is replaced at the others. The error is os.ErrClosed after the session's end. Any
// goroutine may call it, from Open until Close.
func (s *Session) SetFilter(expression string) error {
	if !s.options.FilterChanges {
		return errors.New("replace the filter: Options.FilterChanges is not set")
	}
	if err := s.watch.SetFilter(expression); err != nil {
		return fmt.Errorf("replace the filter by %q: %w", expression, err)
	}
	return nil
}

// Accounts returns the current accounts of the sources; after the session has ended, the final
// ones.
func (s *Session) Accounts() (Accounts, error) {
	all, err := s.ledger.Accounts(s.roster.Accounts)
	s.witness.Fill(all)
	return all, err
}

// RingUse returns the largest share of a CPU's ring that was in use since the last call, from 0 to
// 1: near 1, the ring is about to lose packets.
func (s *Session) RingUse() float64 { return s.sampler.Rings.Used() }

// Close detaches and releases everything, and may be called again. Packets that are still in the
// rings are discarded. Run calls Close by itself.
func (s *Session) Close() error {
	s.Stop()
	if s.watch != nil {
		s.watch.Close()
	}
	if s.monitor != nil {
		s.monitor.Close()
	}
	s.reader.CloseOutlets()
	errs := []error{probe.CloseAll(s.hooks.All)}
	if s.sampler != nil {
		errs = append(errs, s.sampler.Close())
	}
	s.followed.Close() // may be nil, like the witness
	s.witness.Close()
	s.hooks.All, s.followed, s.reader.Err = nil, nil, os.ErrClosed
	return errors.Join(errs...)
}
