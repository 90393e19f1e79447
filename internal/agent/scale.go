package agent

import (
	"math"

	"github.com/xdpcap/xdpcap/capture"
)

// A scale says how many packets the samples of a source stand for. Collectors multiply by the
// sampling rate in each sample, so the sum of these rates is to be the number of packets that could
// have been sampled, the pool. As long as the kernel sends all packets that it draws, each stands
// for as many as the options say. Where some are lost, or --max-rate passes some over, the samples
// that are sent next stand for these, too.
type scale struct {
	nominal uint64 // packets that one stands for that the kernel draws
	limited bool   // the options pass packets over at no fixed rate
	weighed bool   // each packet says how many it stands for, besides those of other flows
	flows   uint64 // one of so many flows is kept

	pool, lost uint64 // by the last account
	owed       uint64 // packets of the pool that no packet stands for which the kernel has sent
	paid       uint64 // those of them for which samples stood
}

func newScale(o *capture.Options) scale {
	s := scale{flows: max(uint64(o.SampleFlows), 1), weighed: o.Adaptive || o.SampleVerdicts != nil}
	s.nominal = max(uint64(o.Sample), 1) * s.flows
	s.limited = o.MaxRate > 0 && !o.Adaptive
	s.weighed = s.weighed && !s.limited
	return s
}

// rateOf returns the rate of a packet, where share has returned that of all packets with which it
// is sent.
func (s *scale) rateOf(weight uint32, shared uint64) uint64 {
	if !s.weighed {
		return shared
	}
	return min(shared-min(shared, s.nominal)+uint64(max(weight, 1))*s.flows, math.MaxUint32)
}

// look takes the account of the source as it is now.
func (s *scale) look(a capture.Account) {
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

// share returns the rate of so many samples, 1 or more, that are sent together. All that wait,
// these included, share what is owed, so that a moment's loss does not make a few packets count for
// very many.
func (s *scale) share(samples, waiting uint64) (rate uint64) {
	more := float64(s.owed-min(s.owed, s.paid)) / float64(waiting)
	if samples == waiting { // these are the last: leave no rest for which no sample stands
		more = math.Ceil(more)
	}
	rate = min(s.nominal+uint64(more), math.MaxUint32)
	s.paid += (rate - min(rate, s.nominal)) * samples
	return rate
}
