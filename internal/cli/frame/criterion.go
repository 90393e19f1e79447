package frame

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Criterion is a value of dumpcap's -a and -b: a key, and a number above zero. A number of kB may
// be a size with a suffix (filesize:100M), and one of seconds a time with a unit (duration:5m).
type Criterion struct {
	Key    string
	Bytes  int64   // if the unit is kB
	number float64 // if the unit is not kB
}

// maxCriterion is the upper bound of the number, in seconds, kB, files or packets.
const maxCriterion = 1e9

// ParseCriterion reads the value of a flag by the keys that it may have, each with the unit of its
// number. A unit of "stdout" means that the value is that word or -, instead of a number.
func ParseCriterion(flag, text string, units map[string]string) (c Criterion, err error) {
	key, value, found := strings.Cut(text, ":")
	unit, known := units[key]
	switch {
	case !found || !known:
		return c, fmt.Errorf("%s %s: must be KEY:VALUE with one of the keys %s", flag, text,
			strings.Join(slices.Sorted(maps.Keys(units)), ", "))
	case unit == "stdout" && (value == unit || value == "-"):
		return Criterion{Key: key}, nil
	case unit == "stdout":
		return c, fmt.Errorf("%s %s: file names are printed only to standard output: say %s:stdout, and >%s", flag, text, key, value)
	}
	c.Key = key
	if unit == "kB" {
		size := Size{Unit: 1000}
		if err := size.Set(value); err != nil || size.Bytes == 0 || size.Bytes > maxCriterion*1000 {
			return c, fmt.Errorf("%s %s: must be a number of kB above zero, which are 1000 bytes each, or a size such as 100M", flag, text)
		}
		c.Bytes = size.Bytes
		return c, nil
	}
	var t Duration
	if unit == "seconds" && t.Set(value) == nil {
		c.number = time.Duration(t).Seconds()
	} else {
		c.number, err = strconv.ParseFloat(value, 64)
	}
	fraction := unit != "seconds" && c.number != float64(int64(c.number))
	if err != nil || !(c.number > 0 && c.number <= maxCriterion) || fraction || c.Duration() < time.Millisecond {
		return c, fmt.Errorf("%s %s: must be a number of %s above zero", flag, text, unit)
	}
	return c, nil
}

// Whole is the number of packets or files.
func (c Criterion) Whole() uint64 { return uint64(c.number) }

// Duration is the number of seconds.
func (c Criterion) Duration() time.Duration { return time.Duration(c.number * float64(time.Second)) }
