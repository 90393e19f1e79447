// Package throttle finds out how many packets an adaptive session can keep: one of N, with the
// smallest N at which its reader, its rings and its outputs keep up.
package throttle

import "time"

// Interval is the interval at which to call Throttle.Follow.
const Interval = 100 * time.Millisecond

// Options configure a Throttle.
type Options struct {
	MaxRate uint64 // upper bound for kept packets per second; 0 = no limit
	Skips   bool   // other options than the rate also skip packets of the pool
}

// Counters are the counters of a session since it began.
type Counters struct {
	At     time.Time     // when they were read
	Pool   uint64        // packets that passed the filter, from which samples are drawn
	Kept   uint64        // packets drawn from the pool
	Lost   uint64        // part of Kept: packets that found no room in a ring
	Taken  uint64        // packets that the reader has handed to the outputs
	Rested time.Duration // total sleep of the reader
	Queues []Queue       // of the outputs; new ones may only be added at the end
}

// A Queue has the counters of an output's queue.
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
	t := &Throttle{options: o, pace: pace{oneIn: 1, enough: 1}}
	t.history.add(Counters{At: time.Now()})
	return t
}

// Rate returns the current rate: one packet of this many is kept.
func (t *Throttle) Rate() uint32 { return t.pace.oneIn }

// Follow adapts the rate to the load of the last second: the work done, and the work that waits. It
// reports whether the rate has changed.
func (t *Throttle) Follow(c *Counters) (changed bool) {
	before := t.pace.oneIn
	t.history.add(*c)
	t.pace.update(t.history.load(t.options, before))
	return t.pace.oneIn != before
}
