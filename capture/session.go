package capture

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/account"
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Session is a running capture. Run and Packets belong to one goroutine; any goroutine may call
// the other methods. Close is called last.
type Session struct {
	options Options
	roster  *roster
	started time.Time
	sampler *sampler
	hooks   hooked
	ledger  *account.Ledger
	reader  reader
	watch   *watch
	witness *witness
	laps    throttle.Laps
	loss    *lossWatch

	regulator *regulator // nil unless the session is adaptive; it has no loss watch then

	comings *comings // nil unless interfaces come and go

	stop sync.Once

	promiscuous promiscuous

	noticing sync.Mutex // held while the Notice that Open was given runs

	mu     sync.Mutex
	causes []error // what ended the session, and errors of detaching
}

// openTries is how often Open chooses the size of the rings.
const openTries = 3

// Open attaches to the interfaces and starts capturing. After an error it is attached to none.
func Open(o Options) (s *Session, err error) {
	for range openTries {
		s, err = openOnce(o)
		// Others of this user may have locked memory after the default size was found to fit.
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
	points, err := o.points()
	if err != nil {
		return nil, err
	}
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	hooks, err := o.hooks(points)
	if err != nil {
		return nil, errors.Join(err, closeHooks(hooks))
	}
	return open(o, hooks, ring.New)
}

// open makes a session of hooks, and of the rings that newRings returns. The hooks are closed with
// the session, or at once after an error.
func open(o Options, hooks []hook, newRings func(ring.Options) *ring.Set) (*Session, error) {
	s := &Session{options: o, hooks: hooked{all: hooks}}
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
	defer runtime.KeepAlive(xdp.KernelTypes()) // all programs are loaded with the same
	s.roster = newRoster(&s.options, s.hooks.all)
	if s.sampler, err = newSampler(&s.options, s.roster, newRings(s.options.rings())); err != nil {
		return err
	}
	s.ledger = account.NewLedger(s.roster.size(), s.options.Count)
	if err := s.openReader(); err != nil {
		return err
	}
	if err := s.sampler.loadHooks(s.hooks.all); err != nil {
		return err
	}
	s.started = time.Now()
	order := slices.Clone(s.hooks.all)
	lowestFirst(order, func(h hook) int { return h.sources()[0].Index })
	if err := attachHooks(order); err != nil {
		return err
	}
	s.roster.describe(s.hooks.all)
	if s.promiscuous, err = setPromiscuous(&s.options, s.roster.sources()); err != nil {
		return err
	}
	if s.options.follows() {
		if err := s.meetFirst(); err != nil {
			return err
		}
	}
	if s.witness, err = newWitness(s.sampler); err != nil {
		return err
	}
	s.witness.look()
	if s.comings != nil {
		s.comings.witness = s.witness
	}
	if err := s.startWatch(); err != nil {
		return err
	}
	if s.options.Adaptive {
		s.regulator = newRegulator(s.sampler, &s.reader)
		go s.regulator.run()
	} else {
		s.loss = newLossWatch(s.sampler, s.ledger, &s.laps, s.started)
		go s.loss.run()
	}
	return nil
}

func (s *Session) openReader() (err error) {
	r := &s.reader
	slots, _ := s.roster.arrays()
	*r = reader{
		rings:     s.sampler.rings,
		roster:    s.roster,
		cards:     s.roster.cards(),
		lost:      ring.Losses{Slots: slots},
		ledger:    s.ledger,
		immediate: s.options.Immediate,
		snapLen:   s.options.SnapLen,
		weighted:  s.options.hasWeights(),
		hasMore:   !s.options.hasWeights() || s.options.follows(),
		follows:   s.options.follows(),
		detached:  &s.hooks.detached,
		programs:  s.sampler.accounts,
		stop:      s.Stop,
		notice:    s.notice,
		laps:      &s.laps,
	}
	r.hasMore = r.hasMore || r.cards != nil
	if s.options.Adaptive {
		r.rest = new(throttle.Rest)
	}
	if r.clock, err = machine.NewStamper(); err != nil {
		return err
	}
	if slices.Contains(s.options.Hooks, Exit) && s.options.follows() || s.roster.has(func(src *Source) bool { return src.Hook == Exit }) {
		if r.outlets.interfaces, err = xdp.OpenNames(); err != nil {
			return err
		}
	}
	for _, h := range s.hooks.all {
		if drop, ok := h.(*dropHook); ok {
			r.words = drop.words
		}
	}
	if s.sampler.stamping == kernel.SamplerStampingEVERY_TICK {
		r.rings.UseTicks()
	}
	return r.rings.Refresh()
}

// Sources returns the session's sources: the interfaces in the order of Options.Interfaces, each
// with its hooks. With Patterns or GiveWay they are in the order in which they came, each after
// those below it, until [Forgetter] outputs have forgotten more than 256 that have gone: then one
// that comes has the place of the first of these. Any goroutine may call it.
func (s *Session) Sources() []Source { return s.roster.sources() }

// Gone returns the indexes of the sources whose interfaces have gone and whose accounts are final.
// Any goroutine may call it.
func (s *Session) Gone() []int { return s.roster.gone(s.ledger.Final() != nil) }

// HasSwitchedOff reports whether attaching has switched off what joins packets at an interface
// before XDP: LRO or hardware GRO. To switch that on again at the end of the session needs
// CAP_NET_ADMIN.
func (s *Session) HasSwitchedOff() bool {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	return slices.ContainsFunc(s.hooks.all, func(h hook) bool {
		own, ok := h.(*xdpHook)
		return ok && own.attached != nil && own.attached.SwitchedOff != nil
	})
}

// Options returns the options of Open with the defaults filled in.
func (s *Session) Options() Options { return s.options }

// ended returns why the session has ended: io.EOF if the end was requested.
func (s *Session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reader.err != io.EOF:
		return errors.Join(append(s.causes, s.reader.err)...)
	case len(s.causes) > 0:
		return errors.Join(s.causes...)
	}
	return io.EOF
}

// fail notes an error for ended.
func (s *Session) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.causes = append(s.causes, err)
	s.mu.Unlock()
}

// notice calls Options.Notice. Any goroutine may call it, as all that have the session's options.
func (s *Session) notice(err error) { s.options.notice(err) }

// Stop detaches from the interfaces and waits about 20 ms, until no sampling program runs any more.
// Run and Packets then hand over the packets that are still in the rings, and return.
func (s *Session) Stop() {
	s.stop.Do(func() {
		s.hooks.mu.Lock()
		defer s.hooks.mu.Unlock()
		s.witness.finish()
		if s.sampler != nil {
			s.fail(s.sampler.letOut())
		}
		if s.watch != nil {
			s.fail(errors.Join(s.watch.look()...)) // hooks that went blind in the last second
		}
		s.fail(s.promiscuous.close())
		s.fail(detachHooks(s.hooks.all))
		if s.sampler != nil {
			s.fail(s.sampler.barrier.Wait())
		}
		s.hooks.detached.Store(true)
		if s.loss != nil {
			s.loss.end()
		}
		if s.regulator != nil {
			s.regulator.end()
		}
		if s.sampler != nil {
			s.sampler.rings.Wake()
		}
	})
}

// Accounts returns the current accounts of the sources; after the session has ended, the final
// ones.
func (s *Session) Accounts() (Accounts, error) {
	all, err := s.ledger.Accounts(s.sampler.accounts)
	s.witness.fill(all)
	return all, err
}

// Close detaches and releases everything, and may be called again. Packets that are still in the
// rings are discarded. Run calls Close by itself.
func (s *Session) Close() error {
	s.Stop()
	if s.watch != nil {
		s.watch.close()
	}
	if s.loss != nil {
		s.loss.close()
	}
	if s.regulator != nil {
		s.regulator.close()
	}
	if names := s.reader.outlets.interfaces; names != nil {
		names.Close()
	}
	s.reader.outlets.interfaces = nil
	errs := []error{closeHooks(s.hooks.all)}
	if s.sampler != nil {
		errs = append(errs, s.sampler.close())
	}
	s.comings.close()
	s.witness.close()
	s.hooks.all, s.watch, s.loss, s.comings, s.reader.err = nil, nil, nil, nil, os.ErrClosed
	return errors.Join(errs...)
}
