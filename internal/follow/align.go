package follow

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Clock says how a clock differs from a reference, as a line: at the reference's time Start it is
// Ahead, and with each second that passes it is Drift seconds more.
type Clock struct {
	Start   int64         // ns since the Unix epoch, by the reference: when the first packet was seen by both
	Ahead   time.Duration // negative = behind
	Drift   float64       // 0 = less than DriftWithin
	Packets int           // how many packets it was found by

	// The differences of these packets are at most Within from the line. DriftWithin is the largest
	// change of Drift with which that can be true.
	Within      time.Duration
	DriftWithin float64
}

// Correct converts a time of the clock, in ns since the Unix epoch, to one of the reference.
func (c *Clock) Correct(ns int64) int64 {
	ns -= int64(c.Ahead)
	return ns - int64(math.Round(float64(ns-c.Start)*c.Drift/(1+c.Drift)))
}

// Sightings are when a capture saw packets, of which it keeps a sample. Captures keep the same
// packets, those with the smallest identifiers. The zero value is ready to use.
type Sightings struct {
	seen  map[uint64]int64 // time in ns, or unusable
	limit uint64           // of identifiers that are kept; 0 = none yet
}

const (
	maxSightings = 1 << 16
	unusable     = math.MinInt64 // a packet that was seen twice

	// onePlace is the longest time in ns that a packet takes through a host. It may be seen several
	// times there.
	onePlace = 10e6
)

// Add adds a packet. Equal packets have equal identifiers, which are random otherwise.
func (s *Sightings) Add(packet uint64, ns int64) {
	if s.limit != 0 && packet > s.limit {
		return
	}
	if s.seen == nil {
		s.seen = make(map[uint64]int64)
	}
	if before, ok := s.seen[packet]; ok {
		if ns < before || ns-before > onePlace {
			s.seen[packet] = unusable
		}
		return
	}
	if s.seen[packet] = ns; len(s.seen) < 2*maxSightings {
		return
	}
	var all []uint64
	for packet := range s.seen {
		all = append(all, packet)
	}
	slices.Sort(all)
	s.limit = all[maxSightings-1]
	for _, packet := range all[maxSightings:] {
		delete(s.seen, packet)
	}
}

// Len returns the number of packets that are kept.
func (s *Sightings) Len() int { return len(s.seen) }

// A sighting is a packet that both captures have.
type sighting struct{ at, ahead float64 } // ns of the reference since the first one; ns

// FewestCommon is how many packets are needed to find a clock.
const FewestCommon = 3

// Of finds the clock of other by that of the reference s. It returns false if they have too few
// packets in common.
func (s *Sightings) Of(other *Sightings) (c Clock, ok bool) {
	var all []sighting
	c.Start = math.MaxInt64
	common := func(f func(at, ahead int64)) {
		for packet, at := range s.seen {
			if there, ok := other.seen[packet]; ok && at != unusable && there != unusable {
				f(at, there-at)
			}
		}
	}
	var first int64 // all differences are computed from that of one packet: as a float it would be inexact
	common(func(at, ahead int64) {
		if at < c.Start {
			c.Start, first = at, ahead
		}
	})
	common(func(at, ahead int64) {
		all = append(all, sighting{float64(at - c.Start), float64(ahead - first)})
	})
	if len(all) < FewestCommon {
		return Clock{}, false
	}
	slices.SortFunc(all, func(a, b sighting) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ahead, b.ahead)) })
	drift := slope(all)
	ahead, within, inliers := line(all, drift)
	c.DriftWithin = 2 * within / (inliers[len(inliers)-1].at - inliers[0].at)
	if math.Abs(drift) <= c.DriftWithin {
		ahead, within, inliers = line(all, 0)
	} else {
		c.Drift = drift
	}
	c.Ahead, c.Within, c.Packets = time.Duration(first+int64(math.Round(ahead))), time.Duration(math.Ceil(within)), len(inliers)
	return c, true
}

// slope returns the drift: the median of the slopes between the two packets of many pairs. It takes
// at most 200 packets, spread evenly, and only pairs that are at least a quarter of the whole time
// apart, because delays change the slope of close ones most. A median ignores the few sightings of
// two different packets with one identifier.
func slope(all []sighting) float64 {
	const most = 200
	var some []sighting
	for i := range min(len(all), most) {
		some = append(some, all[i*len(all)/min(len(all), most)])
	}
	apart := (all[len(all)-1].at - all[0].at) / 4
	var slopes []float64
	for i, a := range some {
		for _, b := range some[i+1:] {
			if d := b.at - a.at; d > 0 && d >= apart {
				slopes = append(slopes, (b.ahead-a.ahead)/d)
			}
		}
	}
	if slopes == nil {
		return 0
	}
	return median(slopes)
}

// line returns the median of the differences without the drift, and how far from it the packets
// are, without those that are different ones with one identifier.
func line(all []sighting, drift float64) (ahead, within float64, inliers []sighting) {
	var rest, far []float64
	for _, p := range all {
		rest = append(rest, p.ahead-drift*p.at)
	}
	ahead = median(slices.Clone(rest))
	for _, r := range rest {
		far = append(far, math.Abs(r-ahead))
	}
	const usual, least = 10, 1000                                    // times the median distance; ns
	limit, within := max(usual*median(slices.Clone(far)), least), 1. // at least 1 ns
	for i, p := range all {
		if far[i] <= limit {
			inliers, within = append(inliers, p), max(within, far[i])
		}
	}
	return ahead, within, inliers
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
