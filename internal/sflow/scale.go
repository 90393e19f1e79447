package sflow

import (
	"math"

	"github.com/xdpcap/xdpcap/capture"
)

// A scale computes the number of packets that the samples of a source represent. Collectors
// multiply by the sampling rate in each sample, so the sum of these rates must be the number of
// packets that could have been sampled, the pool. While the kernel delivers all packets that it
// draws, each represents the number given by the options. If some are lost, or --max-rate skips
// some, the next samples represent these, too.
type scale struct {
	nominal uint64 // packets that a packet drawn by the kernel represents
	limited bool   // the options skip packets at no fixed rate
	weighed bool   // each packet has its own weight, which does not count packets of skipped flows
	flows   uint64 // one of this many flows is kept

	pool, lost uint64 // in the last account
	owed       uint64 // pool packets that no delivered packet represents
	paid       uint64 // part of owed: packets that samples have represented
}

func newScale(o *capture.Options) scale {
	s := scale{flows: max(uint64(o.SampleFlows), 1), weighed: o.Adaptive || o.SampleVerdicts != nil}
	s.nominal = max(uint64(o.Sample), 1) * s.flows
	s.limited = o.MaxRate > 0 && !o.Adaptive
	s.weighed = s.weighed && !s.limited
	return s
}

// rateOf returns the rate of a packet. shared is the result of share for all packets that are sent
// with it.
func (s *scale) rateOf(weight uint32, shared uint64) uint64 {
	if !s.weighed {
		return shared
	}
	return min(shared-min(shared, s.nominal)+uint64(max(weight, 1))*s.flows, math.MaxUint32)
}

// update sets the source's current account.
func (s *scale) update(a capture.Account) {
	s.pool, s.lost = a.Matched(), a.Lost
	s.owed = s.nominal * a.Lost
	if s.weighed {
		s.owed = s.flows * a.Missed
	}
	if s.limited {
		sent := s.nominal * (s.pool - min(s.pool, a.NotSampled+a.Lost))
		s.owed = s.pool - min(s.pool, sent)
	}
}

// share returns the sampling rate for samples (1 or more) that are sent together: how many packets
// each represents. It divides the packets that no sent sample represents yet among all waiting
// samples, including these, so that a short loss does not make a few samples count for very many.
func (s *scale) share(samples, waiting uint64) (rate uint64) {
	more := float64(s.owed-min(s.owed, s.paid)) / float64(waiting)
	if samples == waiting { // the last ones represent the whole rest
		more = math.Ceil(more)
	}
	rate = min(s.nominal+uint64(more), math.MaxUint32)
	s.paid += (rate - min(rate, s.nominal)) * samples
	return rate
}
