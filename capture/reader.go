package capture

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"
)

const (
	// A packet waits at most this long in a ring that does not fill up.
	flushInterval = 50 * time.Millisecond
	// A program may be held up between taking its time stamp and sending its record. A record is
	// handed over only when it is older than this, so that earlier records of other CPUs have
	// arrived. A packet that was held up for longer gets the time of the packet before it in the
	// session.
	settleTime = time.Millisecond
	// Where the rings show that no record is being written, as the transport ring does, only
	// records that are younger than this are held back. It is more than a CPU needs to make its
	// stores visible to others, and than the clocks of CPUs differ.
	promptTime = 10 * time.Microsecond
	// Where a ring shows that a record is being written, younger records are held back for so long
	// at most: a hypervisor may take a CPU away from a program for that long.
	holdTime = 250 * time.Millisecond
	// How long the reader sleeps at most where the first packet will wake it. The outputs have work
	// to do now and then: see tendInterval.
	idleInterval = 250 * time.Millisecond
	// How often the reader looks for CPUs that have come online.
	ringsInterval = time.Second
)

// A reader takes the packets out of the rings, in the order of their time stamps, and counts them.
// It belongs to one goroutine.
type reader struct {
	transport transport
	looked    int64 // when the transport was last asked for rings, in CLOCK_MONOTONIC ns
	merge     merge
	cards     []card // behind the sources; nil = none is asked
	lost      losses
	clock     wallClock
	ledger    *ledger
	poller    *poller
	immediate bool  // Options.Immediate
	snapLen   int   // Options.SnapLen
	weighted  bool  // Options.hasWeights
	hasMore   bool  // cards are asked, or packets have no weights
	rest      *rest // nil = nobody asks how long it sleeps

	// taken is how many packets were handed over so far. Any goroutine may read it.
	taken atomic.Uint64

	outlets outlets

	// settled is up to which stamp all packets were handed over, in ns since the Unix epoch.
	settled atomic.Int64

	// detached is set when all programs were detached and none runs any more.
	detached *atomic.Bool
	// complete tells that the merge has all that the programs sent before that.
	complete bool
	// programs reads what the programs counted of each source.
	programs func() ([]programAccount, error)
	// stop detaches.
	stop func()
	// notice tells the user what does not end the session.
	notice func(error)
	// label names a source.
	label func(source int) string
	// laps measures what the reader's goroutine spends its time on.
	laps *laps
	// idle is called when all packets at hand have been taken, and after each sleep; nil = nothing.
	idle func()

	err error // what read returns from now on
}

// read waits for packets, puts as many into the slice as are at hand and it has room for, and
// returns how many. They are valid until the next call. When the programs are detached it returns
// the packets that were on their way, and then io.EOF. It allocates nothing.
func (r *reader) read(packets []Packet) (int, error) {
	for r.err == nil {
		if !r.merge.isReady() {
			r.err = r.round()
		} else if n := r.take(packets); n > 0 {
			return n, nil
		}
	}
	return 0, r.err
}

// addRings takes up the rings of CPUs that have none yet, and gives back those of CPUs that have
// gone.
func (r *reader) addRings() error {
	rings, err := r.transport.rings()
	err = errors.Join(err, errors.Join(r.merge.drop()...))
	for _, ring := range rings {
		r.merge.cursors = append(r.merge.cursors, newCursor(ring))
		if added := r.poller.add(ring.fd()); err == nil {
			err = added
		}
	}
	return err
}

// take fills the slice with the oldest packets, and returns how many there are. Records that come
// after as many packets as were asked for are counted, and left out.
func (r *reader) take(packets []Packet) (n int) {
	found := packets[:r.merge.next(packets)]
	ledger := r.ledger
	for i := range found {
		p := &found[i]
		if !p.isOf(len(ledger.counts)) {
			ledger.reject(p.named())
			continue
		}
		f := p.Facts
		if f.tagProtocol != 0 {
			p.restoreTag(r.snapLen)
		}
		if !ledger.take(int(f.Source), len(p.Data)) {
			continue
		}
		r.finish(f)
		if n != i {
			packets[n] = *p
		}
		n++
	}
	r.took(n)
	return n
}

// took counts packets that were handed on.
func (r *reader) took(n int) {
	r.taken.Add(uint64(n))
	if r.ledger.isFull() {
		r.stop()
	}
}

// finish turns what the program has said of a packet into what the packet's users are told.
func (r *reader) finish(f *Facts) {
	f.Time = r.clock.stamp(uint64(f.Time))
	if f.Dropped|uint64(f.To) != 0 || r.hasMore || r.clock.setBack != 0 {
		r.finishMore(f)
	}
}

// finishMore is the part of finish that few packets need.
func (r *reader) finishMore(f *Facts) {
	if r.clock.setBack != 0 {
		f.ClockSetBack, r.clock.setBack = r.clock.setBack, 0
	}
	if f.Dropped != 0 {
		f.Dropped = r.lost.since(f)
	}
	if !r.weighted {
		f.Weight = 0
	}
	if r.cards != nil && !r.cards[f.Source].finish(f, r.clock.Offset) {
		r.ledger.unstamped(int(f.Source))
	}
	if f.To != 0 {
		r.outlets.learn(f.To)
	}
}

// round waits until there is a packet whose place in the order is final, or the session has ended.
// It lets packets collect until a ring has filled up to its watermark or it is time to look anyway,
// because a look costs as much as many packets. Where a whole wait has brought nothing, the next
// packet ends the next wait, if the rings can do that.
func (r *reader) round() error {
	r.ledger.publish()
	r.merge.release()
	r.settle()
	at := onPart
	if r.immediate {
		at = onRecord
	}
	for waited := r.immediate; !r.complete; {
		if r.idle != nil {
			r.laps.lap(reading)
			r.idle()
			r.laps.lap(writing)
		}
		// This is read before the rings are looked into, so that everything that the programs sent
		// is found below. What comes later is from a program that could not be detached.
		detached := r.detached.Load()
		now, wasSet, err := r.clock.Read()
		if err != nil {
			return err
		}
		if now-r.looked >= int64(ringsInterval) {
			r.looked = now
			if err := r.addRings(); err != nil {
				r.notice(fmt.Errorf("packets on a CPU that has come online are lost: %w", err))
			}
		}
		final := r.merge.complete(now)
		young := min(time.Duration(now-final), settleTime)
		r.merge.horizon = uint64(final)
		switch {
		case wasSet: // the packets from before that are taken first, and keep the old time
			r.merge.horizon = uint64(min(final, r.clock.Until))
		case detached:
			r.complete, r.merge.horizon = true, math.MaxUint64
		}
		r.merge.gather()
		if waited && len(r.merge.order) == 0 {
			at = onRecord
		}
		armed := r.merge.arm(at)
		ready := r.merge.isReady()
		if !ready {
			r.settle()
		}
		switch {
		case ready && (waited || wasSet || r.complete || armed == never):
			return nil
		case wasSet:
			r.follow(final)
		case !r.complete:
			waited = true
			if err := r.wait(at, armed, young); err != nil {
				return err
			}
		}
	}
	return r.end()
}

// settle publishes that all packets up to the horizon were handed over.
func (r *reader) settle() {
	if r.merge.horizon < math.MaxInt64 {
		r.settled.Store(int64(r.merge.horizon) + r.clock.Offset)
	}
}

// follow turns to the time that the wall clock was set to, once all packets from before that have
// been taken: final is up to when their order is final, in CLOCK_MONOTONIC ns.
func (r *reader) follow(final int64) {
	if r.clock.Until >= final {
		time.Sleep(settleTime)
		return
	}
	if back := r.clock.follow(); back != nil {
		r.notice(back)
	}
}

// wait sleeps until a ring asks to be read, it is time to look anyway, or the session was stopped.
// at is what the rings were asked for, and armed what they can do. Where records are at hand that
// are to be read as soon as they are older than young, it sleeps for no longer.
func (r *reader) wait(at, armed alarm, young time.Duration) error {
	timeout := flushInterval
	switch {
	case armed == never, at == onRecord && len(r.merge.order) > 0:
		timeout = young
	case armed == unsure:
		timeout = settleTime
	case armed == onRecord:
		timeout = idleInterval
	}
	r.laps.lap(reading)
	defer r.laps.lap(waiting)
	if r.rest != nil {
		r.rest.begin()
		defer r.rest.end()
	}
	return r.poller.wait(timeout)
}

// end closes the account by one reading of the programs' counters.
func (r *reader) end() error {
	programs, err := r.programs()
	if err != nil {
		return err
	}
	r.ledger.close(programs)
	for i, a := range r.ledger.final {
		if a.Unexplained != 0 {
			r.notice(fmt.Errorf("%s: the account does not add up, which is a fault of xdpcap or of the kernel: %s", r.label(i), a.Equation()))
		}
	}
	return io.EOF
}
