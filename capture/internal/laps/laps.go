// Package laps measures how a goroutine divides its time.
package laps

import (
	"sync"
	"sync/atomic"
	"time"
)

// An Occupation is what the goroutine of a session is doing.
type Occupation int

const (
	Reading Occupation = iota // takes records out of the rings
	Waiting                   // sleeps until there are some
	Writing                   // hands packets to the outputs, or to the loop over Packets
	occupations
)

// longest is longer than the goroutine ever sleeps or reads.
const longest = 100 * time.Millisecond

// Times are how long each Occupation took.
type Times [occupations]time.Duration

// Laps measures how the goroutine of a session divides its time among the Occupations. It is
// switched on only briefly, because reading the clock takes longer than reading a packet. The
// goroutine calls Lap, and any goroutine may call the other methods. The zero value is ready.
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

// IsOn reports whether Begin was called, and End not yet.
func (l *Laps) IsOn() bool { return l.on.Load() }

// End returns what was measured since Begin. If the current occupation already lasts longer than
// the reader ever sleeps or reads, it must be Writing: an output, or the caller, does not return.
func (l *Laps) End() Times {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	if d := time.Since(l.last); d > longest {
		l.spent[Writing] += d
	}
	return l.spent
}
