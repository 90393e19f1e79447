package meter

import (
	"iter"
	"math/bits"
	"time"
)

// A Range is the runs that took at least From and less than To.
type Range struct {
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	Runs uint64        `json:"runs"`
}

// Ranges cuts a histogram at every power of two, and each part into equal steps: 1, 2, 4, 8, 16 or
// 32. The first and the last range are not empty, and each begins where the one before ends. Runs
// longer than MaxBucket are in the last range.
func (h *Histogram) Ranges(steps int) (ranges []Range) {
	if h.Count == 0 {
		return nil
	}
	least, last := uint64(min(h.Min, MaxBucket-1)), uint64(min(h.Max, MaxBucket-1))
	var from, below uint64
	for exp := max(bits.Len64(least)-1, 0); from <= last; exp++ {
		for step := 1; step <= steps && from <= last; step++ {
			to := stepBound(exp, step, steps)
			// Skips steps shorter than a nanosecond, and those before the first run.
			if to == from || least >= to {
				continue
			}
			if len(ranges) == 0 && least > 0 {
				from = stepBound(exp, step-1, steps)
			}
			n := h.Below(time.Duration(to))
			ranges = append(ranges, Range{time.Duration(from), time.Duration(to), n - below})
			from, below = to, n
		}
	}
	return ranges
}

// Buckets yields every bucket that has runs, in order. Runs longer than MaxBucket are in the last
// one.
func (h *Histogram) Buckets() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		for i, n := range h.buckets {
			if n == 0 {
				continue
			}
			if from, to := bucketBounds(i); !yield(Range{from, to, n}) {
				return
			}
		}
	}
}

// FewRanges returns Ranges with the most steps (up to 8) that still give at most `most` ranges.
// With one step there may be more.
func (h *Histogram) FewRanges(most int) (ranges []Range) {
	for steps := 8; steps >= 1; steps /= 2 {
		if ranges = h.Ranges(steps); len(ranges) <= most {
			break
		}
	}
	return ranges
}

// stepBound returns the end of a step when 2^exp to 2^(exp+1) is divided into equal steps.
func stepBound(exp, step, steps int) uint64 {
	return uint64(1)<<exp + uint64(1)<<exp*uint64(step)/uint64(steps)
}
