package capture

import (
	"sync"
	"sync/atomic"
	"time"
)

// An occupation is what the goroutine of Run or Packets is doing.
type occupation int

const (
	reading occupation = iota // takes records out of the rings
	waiting                   // sleeps until there are some
	writing                   // hands packets to the outputs, or to the loop over Packets
	occupations
)

// laps measures how the goroutine of Run or Packets divides its time among the occupations. It is
// switched on only briefly, because reading the clock takes longer than reading a packet.
type laps struct {
	on    atomic.Bool
	mu    sync.Mutex
	last  time.Time // when the last occupation ended
	spent laptimes
}

type laptimes [occupations]time.Duration

// lap records that the time since the last call was spent on o.
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

// begin starts measuring.
func (l *laps) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.spent = time.Now(), laptimes{}
	l.on.Store(true)
}

// end returns what was measured since begin. If the current occupation already lasts longer than
// the reader ever sleeps or reads, it must be writing: an output, or the caller, does not return.
func (l *laps) end() laptimes {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	if d := time.Since(l.last); d > 2*flushInterval {
		l.spent[writing] += d
	}
	return l.spent
}
