package report

import (
	"math"
	"strconv"
)

// Grouped is a number with a comma before every three digits.
func Grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Rate is a number of something per second: a whole one, but for a small one a tenth.
func Rate(x float64) string {
	if x > 0 && x < 10 && x != math.Trunc(x) {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return Grouped(uint64(math.Round(max(x, 0))))
}

// NewMark is the mark of a number of packets or bytes, which were all lost if it is bad.
func NewMark(label string, n uint64, bad bool) Mark {
	m := Mark{Label: label, Value: float64(n), Text: Grouped(n)}
	if bad {
		m.Bad = m.Value
	}
	return m
}
