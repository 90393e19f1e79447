package sflow

import "sync/atomic"

// Counts are an Agent's sums since its start.
type Counts struct {
	Datagrams                 uint64 // datagrams that the socket accepted
	Flows, Discards, Counters uint64 // samples in all datagrams
	Refused                   uint64 // datagrams that the socket or the collector's host refused
}

// counts are the same, for concurrent use.
type counts struct {
	datagrams, flows, discards, counters, refused, bytes atomic.Uint64
}

// Counts returns the sums so far. It is safe for concurrent use.
func (a *Agent) Counts() Counts {
	c := &a.counts
	return Counts{
		Datagrams: c.datagrams.Load(),
		Flows:     c.flows.Load(), Discards: c.discards.Load(), Counters: c.counters.Load(),
		Refused: c.refused.Load(),
	}
}

// Size returns the number of bytes that the socket accepted. It is safe for concurrent use.
func (a *Agent) Size() int64 { return int64(a.counts.bytes.Load()) }
