package sflow

import (
	"slices"

	"github.com/xdpcap/xdpcap/capture"
)

// Counts are the sums over the datagrams that an Agent has sent.
type Counts struct {
	Datagrams        uint64 `json:"datagrams"` // that the socket accepted
	FlowSamples      uint64 `json:"flow_samples"`
	DiscardedSamples uint64 `json:"discarded_samples"`
	CounterSamples   uint64 `json:"counter_samples"`
	Refused          uint64 `json:"refused"` // datagrams that the socket or the collector's host refused
}

// Counts returns the sums so far. It is safe for concurrent use.
func (a *Agent) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Size returns the number of bytes that the socket accepted. It is safe for concurrent use.
func (a *Agent) Size() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// Accounts returns the Agent's accounts so far; session reads those of the session. Packets in
// datagrams that were not sent yet are counted only in Seen. It is safe for concurrent use.
func (a *Agent) Accounts(session func() (capture.Accounts, error)) (capture.Accounts, error) {
	a.mu.Lock()
	taken := slices.Clone(a.taken)
	a.mu.Unlock()
	own, err := session()
	if err != nil || taken == nil {
		return own, err
	}
	return own.SoFar(taken), nil
}

// countSent counts a datagram, its samples, and earlier datagrams that bounced.
func (a *Agent) countSent(d *datagram, bounced uint64, isAccepted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range d.marks {
		if m.isDiscard {
			a.counts.DiscardedSamples++
		} else {
			a.counts.FlowSamples++
		}
	}
	a.counts.CounterSamples += uint64(d.samples) - uint64(len(d.marks))
	a.counts.Refused += bounced
	if isAccepted {
		a.counts.Datagrams++
		a.sent += int64(len(d.bytes))
	} else {
		a.counts.Refused++
	}
}

// countTaken counts the packets of a datagram as taken.
func (a *Agent) countTaken(d *datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range d.held {
		h, taken := &d.held[i], a.taken.At(i)
		taken.Captured += uint64(h.packets)
		taken.Bytes += uint64(h.bytes)
		*h = held{}
	}
}

// countRefused counts the packets of a datagram as lost samples, and its notifications as not made.
// weigh has already counted the other packets that these notifications represent.
func (a *Agent) countRefused(d *datagram) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range d.held {
		packets := uint64(d.held[i].packets)
		a.sources[i].refused += packets
		a.taken.At(i).NotTaken += packets
	}
	for _, m := range d.marks {
		if m.isDiscard {
			a.sources[m.source].unnoticed++
		}
	}
}

// countSkipped counts a packet that is not an Ethernet frame, because samples can have only these.
func (a *Agent) countSkipped(p *capture.Packet) {
	a.skipped++
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken.At(int(p.Source)).NotTaken++
}
