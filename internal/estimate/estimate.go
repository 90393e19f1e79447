// Package estimate computes, from packets that were drawn at random, how many packets there were in
// total, how many bytes they had, and the bounds of these numbers. docs/internals/sampling.md
// derives the formulas.
package estimate

import "math"

// normal95: a normal variable is within this many standard deviations of its mean in 95 of 100
// cases.
const normal95 = 1.959963984540054

// A Sum estimates the sum of a number over all packets of some kind: their bytes, or their count if
// the number is 1 for each. The zero value is the sum over no packets.
type Sum struct {
	drawn    float64 // the sum over the packets that were drawn
	whole    float64 // the part of drawn of packets with weight 1
	total    float64 // the sum over the others, times their weights
	variance float64 // of total
	packets  float64 // packets in total and variance
}

// Add adds a packet that was drawn with probability 1/weight, and its number, which must not be
// negative. A weight of 0 counts as 1.
func (s *Sum) Add(weight uint32, number float64) {
	s.drawn += number
	if weight <= 1 {
		s.whole += number
		return
	}
	s.add(float64(weight), number)
}

func (s *Sum) add(weight, number float64) {
	s.total += weight * number
	s.variance += weight * (weight - 1) * number * number
	s.packets++
}

// Estimate is the expected sum over all packets.
func (s *Sum) Estimate() float64 { return s.whole + s.total }

// Bounds returns bounds that contain the sum over all packets in at least 95 of 100 captures.
// Packets of this kind have at most this weight, and at most `largest` to add to the sum: a packet
// with both may have existed without being drawn, and the upper bound allows for it.
func (s *Sum) Bounds(weight uint32, largest float64) (low, high float64) {
	missed := *s
	if weight > 1 {
		missed.add(float64(weight), largest)
	}
	if missed.total == 0 {
		return s.whole, s.whole
	}
	// The bounds are the totals that are z standard deviations from the estimate, with the same
	// ratio of variance to total as in the estimate with that packet. The estimate plus and minus
	// its own deviation would be wrong too often for few packets.
	per, z := missed.variance/missed.total, student95(missed.packets)
	middle := s.total + z*z*per/2
	half := math.Sqrt(middle*middle - s.total*s.total)
	return max(s.whole+middle-half, s.drawn), s.whole + middle + half
}

// student95 is like normal95 if the standard deviation itself is estimated from n values: Student's
// distribution, by the first term of its expansion around the normal one.
func student95(n float64) float64 {
	return normal95 * (1 + (normal95*normal95+1)/(4*n))
}
