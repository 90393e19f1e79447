package watch

import (
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// LossInterval is how often a session checks whether it has begun to lose packets. When it has, it
// measures the cause for another LossInterval.
const LossInterval = 500 * time.Millisecond

// A FirstLoss waits for the first loss of a session, and gives a Notice of it.
type FirstLoss struct {
	task
	sampler *probe.Sampler
	reader  *probe.Reader
	options ring.Options // of the session's rings
	rings   []uint32     // by CPU: the number of its ring at the last reading; 0 = no ring
	ignored []uint64     // by CPU: packets lost before it had that ring
	before  LossReading  // the last one without a loss
	Began   *LossReading // the first one with a loss; nil = no loss yet
}

// NewFirstLoss returns a FirstLoss of a session whose programs were attached at the time
// `attached`. The caller starts Run.
func NewFirstLoss(attached time.Time, k *probe.Sampler, r *probe.Reader, rings ring.Options) *FirstLoss {
	numbers := k.RingNumbers()
	return &FirstLoss{
		task: newTask(), sampler: k, reader: r, options: rings,
		rings: numbers, ignored: make([]uint64, len(numbers)), before: LossReading{At: attached},
	}
}

// Run checks for a loss until it has given the Notice. After End it checks a last time: the
// programs must have been detached by then.
func (f *FirstLoss) Run() {
	defer close(f.Done)
	ticker := time.NewTicker(LossInterval)
	defer ticker.Stop()
	for {
		select {
		case <-f.quit:
			f.Check(true)
			return
		case <-ticker.C:
			if f.Check(false) {
				return
			}
			if f.Began != nil { // after a late check the next tick would be too soon to find the cause
				ticker.Reset(LossInterval)
			}
		}
	}
}

// Check takes a LossReading. The first one with a loss begins to measure the cause, and the next
// one gives the Notice. With last, no check follows, and the Notice is given at once. Check returns
// true if no further check is needed.
func (f *FirstLoss) Check(last bool) bool {
	now, err := f.Read()
	switch {
	case err != nil:
		return true // reading the final accounts returns the same error
	case now.Lost == 0: // no loss, or only on CPUs that have no ring any more
		if f.before = now; f.Began != nil {
			f.Began = nil
			f.reader.Laps.End()
		}
		return false
	case f.Began == nil && !last:
		f.Began = &now
		f.reader.Laps.Begin()
		return false
	}
	// This is the second reading with a loss, or the last one.
	spent := f.reader.Laps.End()
	if f.Began != nil && now.At.Sub(f.Began.At) < LossInterval/2 {
		f.Began = nil // the session has ended, and the time was too short to find the cause
	}
	loss := newLoss(f.before, f.Began, now, spent)
	if f.describe(loss, now.worst) == nil {
		f.sampler.Options.Notice(loss)
	}
	return true
}

// describe adds the sources of a loss, the sizes of packets and rings, and the size that helps.
// worst is how many packets the CPU with the most losses has lost.
func (f *FirstLoss) describe(l *packet.Loss, worst uint64) error {
	programs, err := f.reader.Roster.Accounts()
	if err != nil {
		return err
	}
	for i, p := range programs {
		if p.Lost > 0 {
			l.Sources = append(l.Sources, f.reader.Roster.Source(i))
		}
	}
	l.Buffer = f.options.Size // of a ring; l.Size is the mean size of packets
	accounts, err := f.reader.Ledger.Accounts(f.reader.Roster.Accounts)
	if total := accounts.Total(); err == nil && total.Captured > 0 {
		l.Size = int(total.Bytes / total.Captured)
	}
	switch {
	case l.Size == 0:
	case l.Cause == packet.Burst:
		l.Enough = f.options.Enough(l.Size, worst)
	case l.Cause == packet.SmallRings:
		l.Enough = f.options.Enough(l.Size, uint64(l.Rate*packet.EnoughTime.Seconds()))
	}
	return nil
}

// restedShare tells causes apart: a reader that slept for more than this share of the time was fast
// enough, and the rings were too small for the packets that came while it slept.
const restedShare = 0.05

// newLoss describes a loss by three readings: `before` is the last one without a loss, `began` the
// first one with a loss, and `now` the current one. spent is the reader's time between began and
// now. began is nil if the session ended too early to measure spent.
func newLoss(before LossReading, began *LossReading, now LossReading, spent probe.Times) *packet.Loss {
	l := &packet.Loss{
		Lost:    now.Lost,
		Wanted:  now.wanted - before.wanted,
		Elapsed: now.At.Sub(before.At),
		Rate:    rate(before, now),
	}
	if began == nil {
		return l // with the zero Cause, Burst, because no other one was measured
	}
	l.Rate = max(rate(before, *began), rate(*began, now))
	lost, wanted := increase(began.Lost, now.Lost), increase(began.wanted, now.wanted)
	idle := spent[probe.Waiting].Seconds() / now.At.Sub(began.At).Seconds()
	kept := 1 - float64(lost)/float64(wanted) // the share of packets that found room in a ring
	switch {
	case lost == 0: // the zero Cause, Burst
	case idle > restedShare:
		l.Cause, l.Idle = packet.SmallRings, idle
	case spent[probe.Reading] > spent[probe.Writing]:
		l.Cause, l.Room = packet.SlowReader, kept
	default:
		l.Cause, l.Room = packet.SlowOutput, kept
	}
	return l
}

// rate is how many packets per second were to be captured between two readings.
func rate(from, to LossReading) float64 {
	return float64(increase(from.wanted, to.wanted)) / to.At.Sub(from.At).Seconds()
}

// increase returns how much a number has risen; 0 if it is lower than before. It may be lower,
// because a reading leaves out the losses of a CPU that is offline now.
func increase(from, to uint64) uint64 { return to - min(from, to) }

// A LossReading has the counts of the programs since they were attached. It leaves out losses on
// CPUs without a ring: a CPU that comes online during a session gets its ring a moment later, and
// no option helps against that loss.
type LossReading struct {
	At     time.Time
	Lost   uint64
	wanted uint64 // packets lost, or in a ring
	worst  uint64 // packets lost on the CPU with the most losses
}

// Read takes a reading. If a CPU has another ring than at the last one, its losses so far are left
// out from now on.
func (f *FirstLoss) Read() (LossReading, error) {
	r := LossReading{At: time.Now()}
	// Before the counters: if a CPU gets its ring in between, its losses so far are still left out.
	rings := f.sampler.RingNumbers()
	cpus := make([]kernel.SamplerAccount, len(rings))
	for slot := range f.reader.Roster.UsedSlots() {
		perCPU, err := f.sampler.PerCPU(slot)
		if err != nil {
			return r, err
		}
		for cpu, a := range perCPU {
			cpus[cpu].Lost += a.Lost
			cpus[cpu].Sampled += a.Sampled
		}
	}
	for cpu, a := range cpus {
		if hasNewRing := rings[cpu] != f.rings[cpu]; hasNewRing || rings[cpu] == 0 {
			f.ignored[cpu] = a.Lost
		}
		lost := a.Lost - f.ignored[cpu]
		r.Lost += lost
		r.wanted += lost + a.Sampled
		r.worst = max(r.worst, lost)
	}
	f.rings = rings
	return r, nil
}
