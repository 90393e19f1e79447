package follow

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// A Clock is the difference of a clock from a reference clock, as a straight line: at the
// reference's time Start it is Ahead, and increases by Drift seconds per second.
type Clock struct {
	Start   int64         // ns since the Unix epoch, by the reference: the first common packet
	Ahead   time.Duration // negative = behind
	Drift   float64       // 0 = it cannot be distinguished from 0: less than DriftWithin
	Packets int           // the number of common packets by which the line was found

	// Within is the largest distance of these packets' differences from the line, and DriftWithin
	// the largest error of Drift that this permits.
	Within      time.Duration
	DriftWithin float64
}

// Correct converts a time by the clock, in ns since the Unix epoch, to the time by the reference.
func (c *Clock) Correct(ns int64) int64 {
	ns -= int64(c.Ahead)
	return ns - int64(math.Round(float64(ns-c.Start)*c.Drift/(1+c.Drift)))
}

// Sightings are the times at which a capture saw packets. It keeps those with the smallest
// identifiers, so that two captures keep the same packets. The zero value is ready to use.
type Sightings struct {
	seen  map[uint64]int64 // by identifier: time in ns, or unusable
	limit uint64           // the largest identifier that is kept; 0 = no limit yet
}

const (
	maxSightings = 1 << 16
	unusable     = math.MinInt64 // the time of an identifier that several packets have

	// maxTransit is the upper bound for the time in ns that a packet takes through a host. Records
	// of one identifier within this time are of one packet, at several hooks.
	maxTransit = 10e6
)

// Add adds a packet by its identifier: see Identifiers.
func (s *Sightings) Add(packet uint64, ns int64) {
	if s.limit != 0 && packet > s.limit {
		return
	}
	if s.seen == nil {
		s.seen = make(map[uint64]int64)
	}
	if before, ok := s.seen[packet]; ok {
		if ns < before || ns-before > maxTransit {
			s.seen[packet] = unusable
		}
		return
	}
	if s.seen[packet] = ns; len(s.seen) < 2*maxSightings {
		return
	}
	all := slices.Sorted(maps.Keys(s.seen))
	s.limit = all[maxSightings-1]
	for _, packet := range all[maxSightings:] {
		delete(s.seen, packet)
	}
}

// Len returns the number of packets that are kept.
func (s *Sightings) Len() int { return len(s.seen) }

// A sighting is a packet that both captures have. Its numbers are in ns, relative to the first such
// packet, because a float64 cannot have ns since the Unix epoch exactly.
type sighting struct {
	at    float64 // time by the reference
	ahead float64 // difference of the other clock
}

// FewestCommon is the minimum number of common packets to find a clock.
const FewestCommon = 3

// Of finds the clock of other by that of the reference s. It returns false if they have too few
// packets in common.
func (s *Sightings) Of(other *Sightings) (c Clock, ok bool) {
	type pair struct{ at, ahead int64 }
	var common []pair
	for packet, at := range s.seen {
		if there, ok := other.seen[packet]; ok && at != unusable && there != unusable {
			common = append(common, pair{at, there - at})
		}
	}
	if len(common) < FewestCommon {
		return Clock{}, false
	}
	slices.SortFunc(common, func(a, b pair) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ahead, b.ahead)) })
	first := common[0]
	c.Start = first.at
	var all []sighting
	for _, p := range common {
		all = append(all, sighting{float64(p.at - first.at), float64(p.ahead - first.ahead)})
	}
	drift := slope(all)
	ahead, within, inliers := line(all, drift)
	c.DriftWithin = 2 * within / (inliers[len(inliers)-1].at - inliers[0].at)
	if math.Abs(drift) <= c.DriftWithin {
		ahead, within, inliers = line(all, 0)
	} else {
		c.Drift = drift
	}
	c.Ahead, c.Within, c.Packets = time.Duration(first.ahead+int64(math.Round(ahead))), time.Duration(math.Ceil(within)), len(inliers)
	return c, true
}

// slope returns the drift: the median of the slopes between the two packets of many pairs. It takes
// at most 200 packets, spread evenly, and only pairs that are at least a quarter of the whole time
// apart, because different delays change the slope of a close pair most. The median is not affected
// by a few sightings of two different packets with one identifier.
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

// line returns the median of the differences without the drift, the largest distance of a packet
// from it, and the packets. It leaves out the packets with by far the largest distances: each is
// two different packets with one identifier.
func line(all []sighting, drift float64) (ahead, within float64, inliers []sighting) {
	var rest, far []float64
	for _, p := range all {
		rest = append(rest, p.ahead-drift*p.at)
	}
	ahead = median(slices.Clone(rest))
	for _, r := range rest {
		far = append(far, math.Abs(r-ahead))
	}
	const times, least = 10, 1000 // the limit: times the median distance, and at least 1000 ns
	limit := max(times*median(slices.Clone(far)), least)
	within = 1 // ns
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
