package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A size is the value of a flag that takes a number of bytes. The number may end in k, M or G;
// without that it counts the flag's own unit.
type size struct {
	bytes int64
	unit  int64 // bytes of a number without a suffix
}

var suffixes = map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}

func (s *size) Set(text string) error {
	digits, unit := text, s.unit
	if n := len(text); n > 0 {
		if factor, ok := suffixes[text[n-1]|0x20]; ok {
			digits, unit = text[:n-1], factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/max(s.unit, 1<<30) || strings.HasPrefix(digits, "+") {
		return fmt.Errorf("must be a number, which may end in k, M or G")
	}
	s.bytes = n * unit
	return nil
}

func (s *size) String() string {
	if s.bytes == 0 || s.unit == 0 {
		return ""
	}
	return strconv.FormatInt(s.bytes/s.unit, 10)
}

func (s *size) Type() string { return "size" }
