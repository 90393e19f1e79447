package capture

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/capture/internal/throttle"
)

// lossInterval is how often a session checks whether it has begun to lose packets. When it has, it
// measures the cause for another lossInterval.
const lossInterval = 500 * time.Millisecond

// A LossCause is why packets find the rings full.
type LossCause int

const (
	Burst      LossCause = iota // more came at once than a ring holds; later packets were not lost
	SmallRings                  // rings fill up again and again, although the reader sometimes waits for packets
	SlowReader                  // the reader never has to wait
	SlowOutput                  // the reader never has to wait, and spends most of its time in the outputs or the loop over Packets
)

// A Loss is the error that [Options].Notice gets when packets begin to be lost because a ring is
// full. It comes once in a session, within about a second or when the session ends. Its figures
// start at most half a second before the first loss.
type Loss struct {
	Sources []Source      // whose packets were lost
	Lost    uint64        // packets
	Wanted  uint64        // packets to be captured, including the lost ones
	Elapsed time.Duration // the time in which these came, by CLOCK_MONOTONIC
	Rate    float64       // Wanted in packets per second: of the part before or after the loss was noticed, the higher one
	Size    int           // mean len(Packet.Data) of the packets captured so far; 0 = none
	Buffer  int           // bytes of each CPU's ring
	Cause   LossCause

	// Idle, at SmallRings, is the share of time in which the reader waits. Room, at SlowReader and
	// SlowOutput, is the share of packets that find room in the rings. Both are from 0 to 1,
	// measured over the last half second.
	Idle, Room float64

	// Enough is an Options.Buffer that helps, in bytes. At Burst it would have held the lost
	// packets, too, if they had the mean size. At SmallRings it holds all packets of EnoughTime at
	// this rate. 0 if the size is not known or there is not enough memory.
	Enough int
}

// EnoughTime is how long a ring of [Loss].Enough bytes holds out at SmallRings. A reader that has
// work rarely waits longer for a CPU.
const EnoughTime = 20 * time.Millisecond

func (l *Loss) Error() string {
	var labels []string
	for _, src := range l.Sources {
		labels = append(labels, src.Label())
	}
	size := ""
	if l.Size > 0 {
		size = fmt.Sprintf(" of %d bytes on average", l.Size)
	}
	cause := fmt.Sprintf("more came at once than a ring of %s holds", ring.Kibibytes(l.Buffer))
	switch l.Cause {
	case SmallRings:
		cause = fmt.Sprintf("rings of %s fill up again and again, although the reader is idle %.0f %% of the time",
			ring.Kibibytes(l.Buffer), 100*l.Idle)
	case SlowReader:
		cause = fmt.Sprintf("the reader is always busy, and only %.0f %% of packets find room", 100*l.Room)
	case SlowOutput:
		cause = fmt.Sprintf("the output is always busy, and only %.0f %% of packets find room", 100*l.Room)
	}
	return fmt.Sprintf("%s: %d of %d packets lost within %.1f s, at %.0f packets per second%s: %s",
		strings.Join(labels, ","), l.Lost, l.Wanted, l.Elapsed.Seconds(), l.Rate, size, cause)
}

// A lossWatch waits on its own goroutine for the first loss of a session, and gives a Notice of it.
type lossWatch struct {
	options    *Options
	sampler    *probe.Sampler
	roster     *probe.Roster
	programs   func() ([]probe.ProgramCounts, error)
	ledger     *probe.Ledger
	laps       *throttle.Laps
	rings      []uint32     // by CPU: its ring at the last reading
	unheard    []uint64     // by CPU: losses before it had that ring
	before     lossReading  // the last one without a loss
	began      *lossReading // the first one with a loss
	ending     sync.Once
	quit, done chan struct{}
}

// newLossWatch returns a watch of a session. The caller starts run.
func newLossWatch(s *Session) *lossWatch {
	w := &lossWatch{options: &s.options, sampler: s.sampler, roster: s.roster, programs: s.programs, ledger: s.ledger, laps: &s.laps, rings: s.sampler.RingNumbers(), quit: make(chan struct{}), done: make(chan struct{})}
	w.before.at = s.started
	w.unheard = make([]uint64, len(w.rings))
	return w
}

func (w *lossWatch) run() {
	defer close(w.done)
	ticker := time.NewTicker(lossInterval)
	defer ticker.Stop()
	for {
		select {
		case <-w.quit:
			w.look(true)
			return
		case <-ticker.C:
			if w.look(false) {
				return
			}
			if w.began != nil { // after a late look the next tick would be too soon to find the cause
				ticker.Reset(lossInterval)
			}
		}
	}
}

// end makes the goroutine look a last time, and does not wait for it. The programs must have been
// detached.
func (w *lossWatch) end() { w.ending.Do(func() { close(w.quit) }) }

// close joins the goroutine.
func (w *lossWatch) close() {
	w.end()
	<-w.done
}

// look takes a reading, and gives the Notice if a loss is found. It returns true when the watch is
// over.
func (w *lossWatch) look(last bool) bool {
	now, err := w.read()
	switch {
	case err != nil:
		return true // the session's end meets the same error
	case now.lost == 0: // no loss, or only on CPUs that have no ring any more
		if w.before = now; w.began != nil {
			w.began = nil
			w.laps.End()
		}
		return false
	case w.began == nil && !last:
		w.began = &now
		w.laps.Begin()
		return false
	}
	spent := w.laps.End()
	if w.began != nil && now.at.Sub(w.began.at) < lossInterval/2 {
		w.began = nil // the session has ended, and the time was too short to find the cause
	}
	l := newLoss(w.before, w.began, now, spent)
	programs, err := w.programs()
	if err != nil {
		return true
	}
	for i, p := range programs {
		if p.Lost > 0 {
			l.Sources = append(l.Sources, w.roster.Source(i))
		}
	}
	l.Buffer = w.options.Buffer
	if accounts, err := w.ledger.Accounts(w.programs); err == nil {
		if total := accounts.Total(); total.Captured > 0 {
			l.Size = int(total.Bytes / total.Captured)
		}
	}
	rings := w.options.rings()
	switch {
	case l.Size == 0:
	case l.Cause == Burst:
		l.Enough = rings.Enough(l.Size, now.worst)
	case l.Cause == SmallRings:
		l.Enough = rings.Enough(l.Size, uint64(l.Rate*EnoughTime.Seconds()))
	}
	w.options.notice(l)
	return true
}

// newLoss compares three readings: the last one without a loss, the first one with a loss, and the
// one after the laps. began is nil if the session ended before the laps had a result.
func newLoss(before lossReading, began *lossReading, now lossReading, spent throttle.Times) *Loss {
	l := &Loss{
		Lost:    now.lost,
		Wanted:  now.wanted - before.wanted,
		Elapsed: now.at.Sub(before.at),
		Rate:    rate(before, now),
	}
	if began == nil {
		return l
	}
	l.Rate = max(rate(before, *began), rate(*began, now))
	lost, wanted := more(began.lost, now.lost), more(began.wanted, now.wanted)
	idle := spent[throttle.Waiting].Seconds() / now.at.Sub(began.at).Seconds()
	room := 1 - float64(lost)/float64(wanted)
	switch {
	case lost == 0:
	case idle > 0.05:
		l.Cause, l.Idle = SmallRings, idle
	case spent[throttle.Reading] > spent[throttle.Writing]:
		l.Cause, l.Room = SlowReader, room
	default:
		l.Cause, l.Room = SlowOutput, room
	}
	return l
}

func rate(from, to lossReading) float64 {
	return float64(more(from.wanted, to.wanted)) / to.at.Sub(from.at).Seconds()
}

// more returns by how much a number has grown; 0 if it is lower than before. It may be lower,
// because a reading leaves out the losses of a CPU that is offline now.
func more(from, to uint64) uint64 { return to - min(from, to) }

// A lossReading has the counts of the programs since they were attached. It leaves out losses on
// CPUs without a ring: a CPU that comes online during a session gets its ring a moment later, and
// no option helps against that loss.
type lossReading struct {
	at     time.Time
	lost   uint64
	wanted uint64 // lost, or in a ring
	worst  uint64 // lost on the CPU with the most losses
}

func (w *lossWatch) read() (lossReading, error) {
	r := lossReading{at: time.Now()}
	rings := w.sampler.RingNumbers() // before the counters, so that a loss in between counts as before the new ring
	var cpus []kernel.SamplerAccount
	for i := range w.roster.UsedSlots() {
		perCPU, err := w.sampler.PerCPU(i)
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
		r.lost += lost
		r.wanted += lost + a.Sampled
		r.worst = max(r.worst, lost)
	}
	w.rings = rings
	return r, nil
}
