package watch

import (
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
)

// LossInterval is how often a session checks whether it has begun to lose packets. When it has, it
// measures the cause for another LossInterval.
const LossInterval = 500 * time.Millisecond

// A FirstLoss waits on its own goroutine for the first loss of a session, and gives a Notice of it.
type FirstLoss struct {
	LossOptions
	rings      []uint32     // by CPU: its ring at the last reading
	unheard    []uint64     // by CPU: losses before it had that ring
	before     LossReading  // the last one without a loss
	Began      *LossReading // the first one with a loss
	ending     sync.Once
	quit, done chan struct{}
}

// LossOptions are what a FirstLoss looks at.
type LossOptions struct {
	Started time.Time // when the programs were attached
	Sampler *probe.Sampler
	Roster  *probe.Roster
	Ledger  *probe.Ledger
	Laps    *probe.Laps
	Buffer  int // bytes of each CPU's ring

	// Enough returns a size of rings that holds so many packets of so many bytes; 0 = there is not
	// enough memory.
	Enough func(bytes int, packets uint64) int
	Notice func(error)
}

// NewFirstLoss returns one that has not looked yet. The caller starts Run.
func NewFirstLoss(o LossOptions) *FirstLoss {
	w := &FirstLoss{LossOptions: o, rings: o.Sampler.RingNumbers(), quit: make(chan struct{}), done: make(chan struct{})}
	w.before.At = o.Started
	w.unheard = make([]uint64, len(w.rings))
	return w
}

// Run looks until there is a loss, or until End.
func (w *FirstLoss) Run() {
	defer close(w.done)
	ticker := time.NewTicker(LossInterval)
	defer ticker.Stop()
	for {
		select {
		case <-w.quit:
			w.Look(true)
			return
		case <-ticker.C:
			if w.Look(false) {
				return
			}
			if w.Began != nil { // after a late look the next tick would be too soon to find the cause
				ticker.Reset(LossInterval)
			}
		}
	}
}

// End makes the goroutine look a last time, and does not wait for it. The programs must have been
// detached.
func (w *FirstLoss) End() { w.ending.Do(func() { close(w.quit) }) }

// Close joins the goroutine.
func (w *FirstLoss) Close() {
	w.End()
	<-w.done
}

// Look takes a reading, and gives the Notice if a loss is found. It returns true when the watch is
// over.
func (w *FirstLoss) Look(last bool) bool {
	now, err := w.Read()
	switch {
	case err != nil:
		return true // the session's end meets the same error
	case now.Lost == 0: // no loss, or only on CPUs that have no ring any more
		if w.before = now; w.Began != nil {
			w.Began = nil
			w.Laps.End()
		}
		return false
	case w.Began == nil && !last:
		w.Began = &now
		w.Laps.Begin()
		return false
	}
	spent := w.Laps.End()
	if w.Began != nil && now.At.Sub(w.Began.At) < LossInterval/2 {
		w.Began = nil // the session has ended, and the time was too short to find the cause
	}
	l := newLoss(w.before, w.Began, now, spent)
	programs, err := w.Roster.Accounts()
	if err != nil {
		return true
	}
	for i, p := range programs {
		if p.Lost > 0 {
			l.Sources = append(l.Sources, w.Roster.Source(i))
		}
	}
	l.Buffer = w.Buffer
	if accounts, err := w.Ledger.Accounts(w.Roster.Accounts); err == nil {
		if total := accounts.Total(); total.Captured > 0 {
			l.Size = int(total.Bytes / total.Captured)
		}
	}
	switch {
	case l.Size == 0:
	case l.Cause == packet.Burst:
		l.Enough = w.Enough(l.Size, now.worst)
	case l.Cause == packet.SmallRings:
		l.Enough = w.Enough(l.Size, uint64(l.Rate*packet.EnoughTime.Seconds()))
	}
	w.Notice(l)
	return true
}

// newLoss describes a loss by three readings: before, the last one without a loss; began, the first
// one with a loss; and now, after the laps were measured. began is nil if the session ended before
// that.
func newLoss(before LossReading, began *LossReading, now LossReading, spent probe.Times) *packet.Loss {
	l := &packet.Loss{
		Lost:    now.Lost,
		Wanted:  now.wanted - before.wanted,
		Elapsed: now.At.Sub(before.At),
		Rate:    rate(before, now),
	}
	if began == nil {
		return l
	}
	l.Rate = max(rate(before, *began), rate(*began, now))
	lost, wanted := more(began.Lost, now.Lost), more(began.wanted, now.wanted)
	idle := spent[probe.Waiting].Seconds() / now.At.Sub(began.At).Seconds()
	room := 1 - float64(lost)/float64(wanted)
	switch {
	case lost == 0:
	case idle > 0.05:
		l.Cause, l.Idle = packet.SmallRings, idle
	case spent[probe.Reading] > spent[probe.Writing]:
		l.Cause, l.Room = packet.SlowReader, room
	default:
		l.Cause, l.Room = packet.SlowOutput, room
	}
	return l
}

func rate(from, to LossReading) float64 {
	return float64(more(from.wanted, to.wanted)) / to.At.Sub(from.At).Seconds()
}

// more returns by how much a number has grown; 0 if it is lower than before. It may be lower,
// because a reading leaves out the losses of a CPU that is offline now.
func more(from, to uint64) uint64 { return to - min(from, to) }

// A LossReading has the counts of the programs since they were attached. It leaves out losses on
// CPUs without a ring: a CPU that comes online during a session gets its ring a moment later, and
// no option helps against that loss.
type LossReading struct {
	At     time.Time
	Lost   uint64
	wanted uint64 // lost, or in a ring
	worst  uint64 // lost on the CPU with the most losses
}

// Read takes a reading.
func (w *FirstLoss) Read() (LossReading, error) {
	r := LossReading{At: time.Now()}
	rings := w.Sampler.RingNumbers() // before the counters, so that a loss in between counts as before the new ring
	var cpus []kernel.SamplerAccount
	for i := range w.Roster.UsedSlots() {
		perCPU, err := w.Sampler.PerCPU(i)
		if err != nil {
			return r, err
		}
		if cpus == nil {
			cpus = make([]kernel.SamplerAccount, len(perCPU))
		}
		for cpu, a := range perCPU {
			cpus[cpu].Lost += a.Lost
			cpus[cpu].Sampled += a.Sampled
		}
	}
	for cpu, a := range cpus {
		if rings[cpu] == 0 || rings[cpu] != w.rings[cpu] {
			w.unheard[cpu] = a.Lost
		}
		lost := a.Lost - w.unheard[cpu]
		r.Lost += lost
		r.wanted += lost + a.Sampled
		r.worst = max(r.worst, lost)
	}
	w.rings = rings
	return r, nil
}
