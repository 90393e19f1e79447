// Package estimate tells from packets that were drawn at random how many there were of all packets,
// and how many bytes they had, and between which bounds these numbers are. DESIGN.md section 3 says
// why the formulas hold.
package estimate

import "math"

// normal95 is within how many standard deviations of its mean a normal variable is in 95 of 100
// cases.
const normal95 = 1.959963984540054

// A Sum estimates the sum of a number over all packets of some kind, such as their bytes or, with 1
// for each, how many there were. The zero value is the sum over no packets.
type Sum struct {
	drawn    float64 // the sum over the packets that were drawn
	whole    float64 // of these, over those that stand for themselves alone
	total    float64 // over the others, each as often as it stands for a packet
	variance float64 // of total
	packets  float64 // from which these two are known
}

// Add adds a packet that was drawn as one of `weight`, and its number, which is not negative. A
// weight of 0 is taken as 1.
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

// Estimate is the sum that is expected over all packets.
func (s *Sum) Estimate() float64 { return s.whole + s.total }

// Bounds are such that in 95 of 100 captures, or more, the sum over all packets is between them.
// weight is the largest one that a packet of this kind can have, and largest the largest number:
// such a packet may have been there and not have been drawn.
func (s *Sum) Bounds(weight uint32, largest float64) (low, high float64) {
	missed := *s
	if weight > 1 {
		missed.add(float64(weight), largest)
	}
	if missed.total == 0 {
		return s.whole, s.whole
	}
	// The bounds are the totals from which the estimate is so many standard deviations away, where
	// the variance is as many times the total as with that packet. They are not the estimate with
	// its own deviations on both sides, which at few packets is wrong too often.
	per, z := missed.variance/missed.total, student95(missed.packets)
	middle := s.total + z*z*per/2
	half := math.Sqrt(middle*middle - s.total*s.total)
	return max(s.whole+middle-half, s.drawn), s.whole + middle + half
}

// student95 is like normal95 where the standard deviation itself is known from n values only:
// Student's distribution, by the first term of its expansion around the normal one.
func student95(n float64) float64 {
	return normal95 * (1 + (normal95*normal95+1)/(4*n))
}
