package agent

import "sync/atomic"

// Counts count what an Agent has sent so far.
type Counts struct {
	Datagrams                 uint64 // datagrams that the socket has taken
	Flows, Discards, Counters uint64 // samples in all datagrams
	Refused                   uint64 // datagrams that the socket did not take, or that the collector's host refused
}

// counts are Counts that any goroutine may read.
type counts struct {
	datagrams, flows, discards, counters, refused, bytes atomic.Uint64
}

// Counts returns what was sent so far. Any goroutine may call it.
func (a *Agent) Counts() Counts {
	c := &a.counts
	return Counts{
		Datagrams: c.datagrams.Load(),
		Flows:     c.flows.Load(), Discards: c.discards.Load(), Counters: c.counters.Load(),
		Refused: c.refused.Load(),
	}
}

// Size is how many bytes the socket has taken. Any goroutine may call it.
func (a *Agent) Size() int64 { return int64(a.counts.bytes.Load()) }
