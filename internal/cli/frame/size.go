package frame

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Size is the value of a flag that takes a number of bytes. The number may end in k, M or G, or
// in KiB, MiB or GiB; without such a suffix it counts the flag's own unit.
type Size struct {
	Bytes int64
	Unit  int64 // bytes of a number without a suffix
}

var suffixes = map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}

// maxSize is less than the largest int64, so that lengths of headers can be added to a size.
const maxSize = math.MaxInt64 - 1<<30

// Set, String and Type are pflag.Value's. Set takes what String returns.
func (s *Size) Set(text string) error {
	digits, unit := text, s.Unit
	short := strings.TrimSuffix(text, "iB")
	if n := len(short); n > 0 {
		if factor, ok := suffixes[short[n-1]|0x20]; ok {
			digits, unit = short[:n-1], factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxSize/unit || strings.HasPrefix(digits, "+") {
		return fmt.Errorf("must be a number, which may end in k, M or G")
	}
	s.Bytes = n * unit
	return nil
}

func (s *Size) String() string {
	if s.Bytes == 0 || s.Unit == 0 {
		return ""
	}
	if s.Bytes%s.Unit != 0 { // of a number with a suffix
		return strconv.FormatInt(s.Bytes>>10, 10) + "k"
	}
	return strconv.FormatInt(s.Bytes/s.Unit, 10)
}

func (s *Size) Type() string { return "size" }

func (s *Size) Forget() { s.Bytes = 0 }
