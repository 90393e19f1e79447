package probe

import (
	"sync"
	"sync/atomic"
	"time"
)

// An Occupation is an activity of the goroutine that reads a session's packets.
type Occupation int

const (
	Reading     Occupation = iota // reads records from the rings
	Waiting                       // sleeps until there are records
	Writing                       // passes packets to the outputs, or to the loop over Packets
	occupations                   // how many there are
)

// longestLap is an upper bound for one sleep or one read of the goroutine.
const longestLap = 100 * time.Millisecond

// Times has the duration of each Occupation.
type Times [occupations]time.Duration

// Laps measures how that goroutine divides its time among the Occupations. It is switched on only
// for short times, because reading the clock takes longer than reading a packet. The goroutine
// calls Lap, and any goroutine may call the other methods. The zero value is ready to use.
type Laps struct {
	on    atomic.Bool
	mu    sync.Mutex
	last  time.Time // when the last occupation ended
	spent Times
}

// Lap records that the time since the last call was spent on o.
func (l *Laps) Lap(o Occupation) {
	if l.on.Load() {
		l.add(o)
	}
}

func (l *Laps) add(o Occupation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.spent[o] += now.Sub(l.last)
	l.last = now
}

// Begin starts measuring.
func (l *Laps) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.spent = time.Now(), Times{}
	l.on.Store(true)
}

// IsOn reports whether Laps measures: Begin was called, and End was not.
func (l *Laps) IsOn() bool { return l.on.Load() }

// End returns the times since Begin. If the current occupation already lasts longer than
// longestLap, it must be Writing: an output, or the caller's loop, blocks.
func (l *Laps) End() Times {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	if d := time.Since(l.last); d > longestLap {
		l.spent[Writing] += d
	}
	return l.spent
}

// A Rest measures how long a goroutine has slept. Any goroutine may call Total.
type Rest struct {
	mu    sync.Mutex // so that a sleep that ends during a call of Total is counted exactly once
	slept time.Duration
	since time.Time // when the current sleep began; zero = awake
}

// Begin records that the goroutine is about to sleep.
func (r *Rest) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

// End records that it is awake again.
func (r *Rest) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slept += time.Since(r.since)
	r.since = time.Time{}
}

// Total returns how long it has slept. It includes the current sleep, and never decreases.
func (r *Rest) Total() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return r.slept
	}
	return r.slept + time.Since(r.since)
}
