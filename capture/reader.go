package capture

import (
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/account"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// ringsInterval is how often the reader looks for CPUs that have come online.
const ringsInterval = time.Second

// A reader takes packets from the rings, in the order of their time stamps, and counts them. It
// belongs to one goroutine.
type reader struct {
	rings     *ring.Set
	looked    int64 // when rings were last looked for, in CLOCK_MONOTONIC ns
	roster    *roster
	met       int    // how many sources have come that the reader knows, where they come and go
	cards     []card // by source; nil = no card is asked
	lost      ring.Losses
	clock     machine.Stamper
	ledger    *account.Ledger
	immediate bool           // Options.Immediate
	snapLen   int            // Options.SnapLen
	weighted  bool           // Options.hasWeights
	hasMore   bool           // finishMore is needed for all packets: cards are asked, weights are unknown, or follows
	follows   bool           // Options.follows
	rest      *throttle.Rest // measures how long the reader sleeps; nil = not needed

	// taken is how many packets were handed over so far. Any goroutine may read it.
	taken atomic.Uint64

	outlets outlets
	words   *lost.Words // nil = no source has lost packets

	// settled is the stamp up to which all packets were handed over, in ns since the Unix epoch,
	// and passed the same in CLOCK_MONOTONIC. Any goroutine may read them.
	settled, passed atomic.Int64

	// detached is set when all programs are detached and none runs any more.
	detached *atomic.Bool
	// complete is set when the merge has everything that the programs sent before that.
	complete bool
	// programs reads what the programs counted for each source.
	programs func() ([]account.Program, error)
	// stop detaches the programs.
	stop func()
	// notice is Options.Notice.
	notice func(error)
	// laps measures how the reader's goroutine spends its time.
	laps *throttle.Laps
	// idle, if not nil, is called when all available packets have been taken, and after each sleep.
	idle func()

	err error // what read returns from now on
}

// read waits for packets, puts the available ones into the slice, as many as fit, and returns how
// many. They are valid until the next call. When the programs are detached it returns the remaining
// packets, and then io.EOF. It allocates nothing.
func (r *reader) read(packets []Packet) (int, error) {
	for r.err == nil {
		if !r.rings.IsReady() {
			r.err = r.round()
		} else if n := r.take(packets); n > 0 {
			return n, nil
		}
	}
	return 0, r.err
}

// take fills the slice with the oldest packets, and returns how many there are. Records that come
// after the ledger's limit are counted and skipped.
func (r *reader) take(packets []Packet) (n int) {
	found := packets[:r.rings.Next(packets)]
	ledger := r.ledger
	for i := range found {
		p := &found[i]
		slot := p.Source
		source, ok := r.sourceOf(int(slot))
		if !ok || p.Data == nil {
			ledger.Reject(source)
			continue
		}
		ring.RestoreTag(p, r.snapLen)
		if !ledger.Take(source, len(p.Data)) {
			continue
		}
		r.finish(p.Facts, slot, source)
		p.Source = uint16(source)
		if n != i {
			packets[n] = *p
		}
		n++
	}
	r.took(n)
	return n
}

// took counts packets that were handed on, and stops the session at the limit.
func (r *reader) took(n int) {
	r.taken.Add(uint64(n))
	if r.ledger.IsFull() {
		r.stop()
	}
}

// sourceOf returns the source that has a slot, by which the program names it in a record. It is
// false if no program can have that slot.
func (r *reader) sourceOf(slot int) (source int, ok bool) {
	if r.follows {
		return r.tenantOf(slot)
	}
	return slot, slot < len(r.ledger.Counts())
}

// tenantOf is sourceOf where interfaces come and go.
func (r *reader) tenantOf(slot int) (source int, ok bool) {
	source, came := r.roster.tenant(slot)
	if came > r.met {
		r.meet()
	}
	return source, came > 0
}

// meet takes notice of sources that have come.
func (r *reader) meet() {
	if come := int(r.roster.come.Load()); come > r.met {
		r.cards = r.roster.cards()
		r.roster.lostBefore(r.met, r.lost.Begin)
		r.ledger.Grow(r.roster.size())
		r.met = come
	}
}

// finish turns the facts that the program wrote into those that users see.
func (r *reader) finish(f *Facts, slot uint16, source int) {
	f.Time = r.clock.Stamp(uint64(f.Time))
	if f.Dropped|uint64(f.To)|uint64(f.Location) != 0 || r.hasMore || r.clock.SetBack != 0 {
		r.finishMore(f, slot, source)
	}
}

// finishMore is the part of finish that few packets need.
func (r *reader) finishMore(f *Facts, slot uint16, source int) {
	if r.clock.SetBack != 0 {
		f.ClockSetBack, r.clock.SetBack = r.clock.SetBack, 0
	}
	if f.Dropped != 0 {
		f.Dropped = r.lost.Since(slot, f)
	}
	if !r.weighted {
		f.Weight = 0
	}
	if r.cards != nil && !r.cards[source].finish(f, r.clock.Offset) {
		r.ledger.Unstamped(source)
	}
	if f.To != 0 {
		r.outlets.learn(f.To)
	}
	if f.Location != 0 && r.words != nil {
		r.words.Learn(uint64(f.Location))
	}
}

// round waits until there is a packet whose position in the order is final, or the session has
// ended. It waits until a ring has filled up to its watermark or ring.FlushInterval has passed,
// because each look at the rings costs as much as many packets. If a whole wait has brought
// nothing, the first packet ends the next wait, if the rings support that.
func (r *reader) round() error {
	if r.follows {
		r.meet()
	}
	r.ledger.Publish()
	r.rings.Release()
	r.settle()
	atRecord := r.immediate
	for waited := r.immediate; !r.complete; {
		if r.idle != nil {
			r.laps.Lap(throttle.Reading)
			r.idle()
			r.laps.Lap(throttle.Writing)
		}
		// This is read before the rings, so that gather below finds everything that the programs
		// sent. A record that comes later is from a program that could not be detached.
		detached := r.detached.Load()
		now, wasSet, err := r.clock.Read()
		if err != nil {
			return err
		}
		if now-r.looked >= int64(ringsInterval) {
			r.looked = now
			if err := r.rings.Refresh(); err != nil {
				r.notice(fmt.Errorf("packets on a CPU that has come online are lost: %w", err))
			}
		}
		final := r.rings.Complete(now)
		horizon := uint64(final)
		switch {
		case wasSet: // the clock was set: packets from before that are taken first, and keep the old time
			horizon = uint64(min(final, r.clock.Until))
		case detached:
			r.complete, horizon = true, math.MaxUint64
		}
		r.rings.Gather(horizon)
		if waited && r.rings.IsEmpty() {
			atRecord = true
		}
		filled := r.rings.Arm(atRecord)
		ready := r.rings.IsReady()
		if !ready {
			r.settle()
		}
		switch {
		case ready && (waited || wasSet || r.complete || filled):
			return nil
		case wasSet:
			r.follow(final)
		case !r.complete:
			waited = true
			if err := r.wait(); err != nil {
				return err
			}
		}
	}
	return r.end()
}

// settle publishes that all packets up to the horizon were handed over.
func (r *reader) settle() {
	if horizon := r.rings.Horizon(); horizon < math.MaxInt64 {
		r.settled.Store(int64(horizon) + r.clock.Offset)
		r.passed.Store(int64(horizon))
	}
}

// follow adopts the wall clock's new time once all packets from before the change have been taken.
// The packets' order is final up to `final`, in CLOCK_MONOTONIC ns.
func (r *reader) follow(final int64) {
	if r.clock.Until >= final {
		time.Sleep(ring.SettleTime)
		return
	}
	if back := r.clock.Follow(); back != nil {
		r.notice(back)
	}
}

// wait sleeps until a ring asks to be read, a timeout has passed, or the session was stopped.
func (r *reader) wait() error {
	r.laps.Lap(throttle.Reading)
	defer r.laps.Lap(throttle.Waiting)
	if r.rest != nil {
		r.rest.Begin()
		defer r.rest.End()
	}
	return r.rings.Wait()
}

// end closes the ledger with a last reading of the programs' counters.
func (r *reader) end() error {
	programs, err := r.programs()
	if err != nil {
		return err
	}
	r.ledger.Close(programs)
	for i, a := range r.ledger.Final() {
		if a.Unexplained != 0 {
			src := r.roster.source(i)
			r.notice(fmt.Errorf("%s: the account does not add up, which is a bug of xdpcap or of the kernel: %s", src.Label(), a.Equation()))
		}
	}
	return io.EOF
}
