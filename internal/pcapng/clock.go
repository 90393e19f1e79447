package pcapng

import (
	"math"
	"math/bits"
)

// A Clock turns the time stamps of an interface into nanoseconds since the Unix epoch. Times more
// than 292 years from the epoch, which nanoseconds cannot count, become the earliest or latest
// possible value.
type Clock struct {
	times  uint64 // a stamp's nanoseconds are (stamp * times >> shift) / divide
	divide uint64
	shift  uint
	offset int64 // seconds, added
}

// NewClock returns the Clock for an if_tsresol and an if_tsoffset.
func NewClock(resolution byte, offset int64) Clock {
	c := Clock{times: 1, divide: 1, offset: offset}
	n := int(resolution & 0x7f)
	switch {
	case resolution&0x80 != 0: // a stamp counts units of 2^-n s; otherwise of 10^-n s
		c.times, c.shift = 1e9, uint(n)
	case n <= 9:
		c.times = uint64(math.Pow10(9 - n))
	case n <= 9+19:
		c.divide = uint64(math.Pow10(n - 9)) // exact: a float64 has all powers up to 10^22
	default:
		c.times = 0 // even the largest stamp is less than a nanosecond
	}
	return c
}

// Time returns the time of a stamp in nanoseconds since the Unix epoch, rounded down.
func (c Clock) Time(stamp uint64) int64 {
	hi, lo := bits.Mul64(stamp, c.times) // 128 bits
	switch {
	case c.shift >= 64:
		hi, lo = 0, hi>>(c.shift-64)
	case c.shift > 0:
		hi, lo = hi>>c.shift, hi<<(64-c.shift)|lo>>c.shift
	}
	ns := int64(math.MaxInt64)
	if lo /= c.divide; hi == 0 && lo < math.MaxInt64 {
		ns = int64(lo)
	}
	if c.offset == 0 {
		return ns
	}
	return c.addOffset(ns)
}

// Stamp is the reverse of Time, to the precision of nanoseconds. It returns 0 for times before the
// clock's first.
func (c Clock) Stamp(ns int64) uint64 {
	ns -= c.offset * 1e9
	if ns < 0 || c.times == 0 {
		return 0
	}
	if c.shift > 0 {
		fine := min(c.shift, 33) // 2^-33 s is finer than a nanosecond
		seconds, rest := uint64(ns)/1e9, uint64(ns)%1e9
		return (seconds<<fine + rest<<fine/1e9) << (c.shift - fine)
	}
	return uint64(ns) / c.times * c.divide
}

func (c Clock) addOffset(ns int64) int64 {
	const most = math.MaxInt64 / 1_000_000_000
	switch {
	case c.offset > most:
		return math.MaxInt64
	case c.offset < -most:
		return math.MinInt64
	}
	offset := c.offset * 1e9
	switch sum := ns + offset; {
	case offset > 0 && sum < ns:
		return math.MaxInt64
	case offset < 0 && sum > ns:
		return math.MinInt64
	default:
		return sum
	}
}
