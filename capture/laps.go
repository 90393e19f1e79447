package capture

import (
	"sync"
	"sync/atomic"
	"time"
)

// An occupation is what the goroutine of Run or Packets does.
type occupation int

const (
	reading occupation = iota // takes records out of the rings
	waiting                   // sleeps until there are some
	writing                   // hands packets to the outputs, or to the loop over Packets
	occupations
)

// laps measures how much of its time the goroutine of Run or Packets spends on each occupation. It
// is switched on for a short time only, because to read the clock takes longer than to read a
// packet.
type laps struct {
	on    atomic.Bool
	mu    sync.Mutex
	last  time.Time // when an occupation ended last
	spent laptimes
}

type laptimes [occupations]time.Duration

// lap says what the time since the last call was spent on.
func (l *laps) lap(o occupation) {
	if l.on.Load() {
		l.add(o)
	}
}

func (l *laps) add(o occupation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.spent[o] += now.Sub(l.last)
	l.last = now
}

// begin measures from now on.
func (l *laps) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.spent = time.Now(), laptimes{}
	l.on.Store(true)
}

// end returns what was measured since begin. What is still going on is writing if it has taken
// longer than the reader ever sleeps or reads: then an output, or the caller, does not return.
func (l *laps) end() laptimes {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	if d := time.Since(l.last); d > 2*flushInterval {
		l.spent[writing] += d
	}
	return l.spent
}
