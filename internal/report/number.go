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

// Rate is a rate per second: rounded to a whole number or, below 10, to a tenth.
func Rate(x float64) string {
	if x > 0 && x < 10 && x != math.Trunc(x) {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return Grouped(uint64(math.Round(max(x, 0))))
}

// NewMark returns the mark of a number of packets or bytes; bad means that all of them were lost.
func NewMark(label string, n uint64, bad bool) Mark {
	m := Mark{Label: label, Value: float64(n), Text: Grouped(n)}
	if bad {
		m.Bad = m.Value
	}
	return m
}
