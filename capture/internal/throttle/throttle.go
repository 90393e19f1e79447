// Package throttle finds the rate at which an adaptive session samples: the highest at which its
// reader, its rings and its outputs keep up.
package throttle

import "time"

// Interval is how often a Throttle expects to be told the counters.
const Interval = 100 * time.Millisecond

// Options say what a Throttle takes into account besides the load.
type Options struct {
	MaxRate uint64 // packets per second to keep at most; 0 = no limit
	Skips   bool   // packets of the pool are also skipped at no fixed rate
}

// Counters are what a session has counted since it began.
type Counters struct {
	At     time.Time     // when they were read
	Pool   uint64        // packets that passed the filter, from which samples are drawn
	Kept   uint64        // packets drawn from the pool
	Lost   uint64        // part of Kept: packets that found no room in a ring
	Taken  uint64        // packets that the reader has handed over
	Rested time.Duration // how long the reader has slept
	Queues []Queue       // of the outputs; new ones may only be added at the end
}

// A Queue is what the queue of an output has handled.
type Queue struct {
	Added, Written int64 // bytes so far
	Limit          int64 // bytes that may wait
}

// A Throttle turns counters into a rate. It is for one goroutine.
type Throttle struct {
	options Options
	pace    pace
	history history
}

// New returns a Throttle of a session that begins now and keeps every packet.
func New(o Options) *Throttle {
	t := &Throttle{options: o, pace: newPace()}
	t.history.add(workload{at: time.Now()})
	return t
}

// Rate is the present rate: one packet of this many is kept.
func (t *Throttle) Rate() uint32 { return t.pace.oneIn }

// Follow adapts the rate to the work that was done since the last calls and to the work that waits.
// It returns whether the rate has changed.
func (t *Throttle) Follow(c *Counters) (changed bool) {
	before := t.pace.oneIn
	t.history.add(newWorkload(c))
	t.pace.follow(t.history.strain(t.options, before))
	return t.pace.oneIn != before
}
