package optimise

import "math/bits"

// bitset is a set of small numbers.
type bitset []uint64

func (s bitset) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s bitset) add(i int) { s[i/64] |= 1 << (i % 64) }

// fill sets every word of the set.
func (s bitset) fill(word uint64) {
	for i := range s {
		s[i] = word
	}
}

// intersect keeps the members that are in t, too.
func (s bitset) intersect(t bitset) {
	for i := range s {
		s[i] &= t[i]
	}
}

// next is the first member that is at least i, or -1.
func (s bitset) next(i int) int {
	for w := i / 64; w < len(s); w++ {
		if x := s[w] >> (i % 64); x != 0 {
			return i + bits.TrailingZeros64(x)
		}
		i = (w + 1) * 64
	}
	return -1
}
