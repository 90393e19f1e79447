package probe

import (
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// refreshInterval is how often the reader looks for CPUs that have come online.
const refreshInterval = time.Second

// A Reader takes packets from the rings, in the order of their time stamps, and counts them. It
// belongs to one goroutine, except for the fields and methods whose comments allow any goroutine.
type Reader struct {
	Rings         *ring.Set
	Roster        *Roster
	SourcesChange bool   // sources come and go
	Cards         []Card // by source; nil = no source has metadata of a card
	Lost          ring.Losses
	Clock         machine.Stamper
	Ledger        *Ledger
	Immediate     bool        // packets are handed over one by one, not in groups
	SnapLen       int         // bytes
	Weighted      bool        // a record's weight is right: the sampling rate alone gives it
	FinishesAll   bool        // all packets have more facts to convert than their time: see Finish
	Words         *lost.Words // why and where the kernel drops, in words; nil = no source has lost packets

	Rest Rest // how long the goroutine has slept
	Laps Laps // how the goroutine divides its time

	Detached *atomic.Bool // set when all programs are detached and have ended
	Stop     func()       // detaches the programs
	Notice   func(error)

	// Idle, if not nil, is called when all available packets have been taken, and after each sleep.
	Idle func()

	Added int   // how many sources had come at the last addSources
	Err   error // the error that Read returns from now on

	// Taken is how many packets were handed over so far. Any goroutine may read it.
	Taken atomic.Uint64
	// Settled is the stamp up to which all packets were handed over, in ns since the Unix epoch,
	// and Passed the same in CLOCK_MONOTONIC. Any goroutine may read them.
	Settled, Passed atomic.Int64

	outlets   outlets // the names of the interfaces to which programs send packets
	refreshed int64   // when the rings were last refreshed, in CLOCK_MONOTONIC ns
	complete  bool    // the merge has all records that the programs sent before they were detached
}

// Read waits for packets, puts the available ones into the slice, as many as fit, and returns how
// many. They are valid until the next call. When the programs are detached it returns the remaining
// packets, and then io.EOF. It does not allocate.
func (r *Reader) Read(packets []packet.Packet) (int, error) {
	for r.Err == nil {
		if !r.Rings.IsReady() {
			r.Err = r.AwaitPackets()
		} else if n := r.Take(packets); n > 0 {
			return n, nil
		}
	}
	return 0, r.Err
}

// Take fills the slice with the oldest packets, and returns how many there are. Records that come
// after the ledger's limit are counted and skipped. At the limit it stops the session.
func (r *Reader) Take(packets []packet.Packet) (n int) {
	found := packets[:r.Rings.Next(packets)]
	ledger := r.Ledger
	for i := range found {
		p := &found[i]
		slot := p.Source // in a record; the packet gets the source's index below
		source, ok := r.SourceOf(int(slot))
		if isInvalid := p.Data == nil; isInvalid || !ok {
			ledger.Reject(source)
			continue
		}
		ring.RestoreTag(p, r.SnapLen)
		if !ledger.Take(source, len(p.Data)) {
			continue
		}
		r.Finish(p.Facts, slot, source)
		p.Source = uint16(source)
		if n != i {
			packets[n] = *p
		}
		n++
	}
	r.CountTaken(n)
	return n
}

// CountTaken counts packets that were handed over, and stops the session at the limit.
func (r *Reader) CountTaken(n int) {
	r.Taken.Add(uint64(n))
	if r.Ledger.IsFull() {
		r.Stop()
	}
}

// SourceOf returns the index of the source that has a slot, which is in each record. ok is false if
// no source has it. For the first record of a new source it prepares the reader for that.
func (r *Reader) SourceOf(slot int) (source int, ok bool) {
	if r.SourcesChange {
		return r.tenantOf(slot)
	}
	return slot, slot < len(r.Ledger.Counts())
}

// tenantOf is SourceOf where sources come and go.
func (r *Reader) tenantOf(slot int) (source int, ok bool) {
	source, came := r.Roster.Tenant(slot)
	if came > r.Added {
		r.addSources()
	}
	return source, came > 0
}

// addSources prepares the reader for the sources that have come.
func (r *Reader) addSources() {
	if come := r.Roster.Come(); come > r.Added {
		r.Cards = r.Roster.Cards()
		r.Roster.LostBefore(r.Added, r.Lost.Begin)
		r.Ledger.Grow(r.Roster.Size())
		r.Added = come
	}
}

// Finish converts the facts that the program wrote to those of package packet. Most packets need
// only their time converted. FinishesAll is set if all packets need more: where cards give
// metadata, weights are unknown, or sources come and go.
func (r *Reader) Finish(f *packet.Facts, slot uint16, source int) {
	f.Time = r.Clock.Stamp(uint64(f.Time))
	hasRareFacts := f.Dropped|uint64(f.To)|uint64(f.Location) != 0
	if hasRareFacts || r.FinishesAll || r.Clock.SetBack != 0 {
		r.finishMore(f, slot, source)
	}
}

// finishMore converts the other facts. It looks up the names of an outlet and of a function that
// are new, so that the outputs find them later.
func (r *Reader) finishMore(f *packet.Facts, slot uint16, source int) {
	if r.Clock.SetBack != 0 {
		f.ClockSetBack, r.Clock.SetBack = r.Clock.SetBack, 0
	}
	if f.Dropped != 0 {
		f.Dropped = r.Lost.Since(slot, f)
	}
	if !r.Weighted {
		f.Weight = 0
	}
	if r.Cards != nil && !r.Cards[source].Finish(f, r.Clock.Offset) {
		r.Ledger.Unstamped(source)
	}
	if f.To != 0 {
		r.outlets.learn(f.To)
	}
	if f.Location != 0 && r.Words != nil {
		r.Words.Learn(uint64(f.Location))
	}
}

// AwaitPackets waits until there is a packet whose position in the order is final, or the session
// has ended. It waits until a ring has filled up to its watermark or ring.FlushInterval has passed,
// because reading the state of all rings costs as much as many packets. After a whole wait without
// packets, the first packet ends the next wait, if the rings support that.
func (r *Reader) AwaitPackets() error {
	if r.SourcesChange {
		r.addSources()
	}
	r.Ledger.Publish()
	r.Rings.Release()
	r.publishHorizon()
	atRecord := r.Immediate // the first packet ends the wait
	for waited := r.Immediate; !r.complete; {
		if r.Idle != nil {
			r.Laps.Lap(Reading)
			r.Idle()
			r.Laps.Lap(Writing)
		}
		// This is read before the rings, so that Gather below finds everything that the programs
		// sent. A record that comes later is from a program that could not be detached.
		detached := r.Detached.Load()
		now, clockWasSet, err := r.Clock.Read()
		if err != nil {
			return err
		}
		if now-r.refreshed >= int64(refreshInterval) {
			r.refreshed = now
			if err := r.Rings.Refresh(); err != nil {
				r.Notice(fmt.Errorf("packets on a CPU that has come online are lost: %w", err))
			}
		}
		final := r.Rings.Complete(now)
		horizon := uint64(final)
		switch {
		case clockWasSet: // packets from before that are taken first, with the old time
			horizon = uint64(min(final, r.Clock.Until))
		case detached:
			r.complete, horizon = true, math.MaxUint64
		}
		r.Rings.Gather(horizon)
		if waited && r.Rings.IsEmpty() {
			atRecord = true
		}
		filled := r.Rings.Arm(atRecord) // a ring is at its watermark already
		ready := r.Rings.IsReady()
		if !ready {
			r.publishHorizon()
		}
		switch {
		case ready && (waited || clockWasSet || r.complete || filled):
			return nil
		case clockWasSet:
			r.adoptClock(final)
		case !r.complete:
			waited = true
			if err := r.wait(); err != nil {
				return err
			}
		}
	}
	return r.end()
}

// publishHorizon publishes the stamp up to which all packets were handed over.
func (r *Reader) publishHorizon() {
	if horizon := r.Rings.Horizon(); horizon < math.MaxInt64 {
		r.Settled.Store(int64(horizon) + r.Clock.Offset)
		r.Passed.Store(int64(horizon))
	}
}

// adoptClock adopts the new time of the wall clock once all packets from before the change have
// been taken. The packets' order is final up to `final`, in CLOCK_MONOTONIC ns.
func (r *Reader) adoptClock(final int64) {
	if r.Clock.Until >= final {
		time.Sleep(ring.SettleTime)
		return
	}
	if back := r.Clock.Follow(); back != nil {
		r.Notice(back)
	}
}

// wait sleeps until a ring becomes readable, a timeout passes, or the session is stopped.
func (r *Reader) wait() error {
	r.Laps.Lap(Reading)
	defer r.Laps.Lap(Waiting)
	r.Rest.Begin()
	defer r.Rest.End()
	return r.Rings.Wait()
}

// end closes the ledger with a last reading of the programs' counters.
func (r *Reader) end() error {
	programs, err := r.Roster.Accounts()
	if err != nil {
		return err
	}
	r.Ledger.Close(programs)
	for i, a := range r.Ledger.Final() {
		if a.Unexplained != 0 {
			src := r.Roster.Source(i)
			r.Notice(fmt.Errorf("%s: the account does not add up, which is a bug of xdpcap or of the kernel: %s", src.Label(), a.Equation()))
		}
	}
	return io.EOF
}
