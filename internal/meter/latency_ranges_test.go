package meter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The ranges are in order, without a gap, and contain every value once.
func TestRanges(t *testing.T) {
	t.Parallel()
	for _, values := range [][]time.Duration{
		{0}, {1}, {0, 1, 2, 3}, {63, 64}, {100, 119}, {0, 17 * time.Second}, {1 << 35}, {5, 5, 1 << 40}, {31, 32, 33, 1023, 1024},
	} {
		var h Histogram
		for _, v := range values {
			h.Observe(v)
		}
		for _, steps := range []int{1, 2, 4, 8} {
			ranges := h.Ranges(steps)
			var runs uint64
			for i, r := range ranges {
				var want uint64
				for _, v := range values {
					v = min(v, MaxBucket-1) // longer values are in the last range
					if v >= r.From && v < r.To {
						want++
					}
				}
				if r.Runs != want || r.From >= r.To || i > 0 && r.From != ranges[i-1].To {
					t.Fatalf("%v in %d steps: range %d is %+v, want %d", values, steps, i, r, want)
				}
				runs += r.Runs
			}
			if runs != h.Count || ranges[0].Runs == 0 || ranges[len(ranges)-1].Runs == 0 {
				t.Fatalf("%v in %d steps: %d runs in %d ranges", values, steps, runs, len(ranges))
			}
		}
	}
}

func TestFewRanges(t *testing.T) {
	t.Parallel()
	var h Histogram
	for _, v := range []time.Duration{64, 100, 200} { // 64 to 128 and 128 to 256
		h.Observe(v)
	}
	// The last range is the one that contains 200.
	for _, test := range []struct {
		most int
		want []Range
	}{
		{4, []Range{{64, 96, 1}, {96, 128, 1}, {128, 192, 0}, {192, 256, 1}}},
		{3, []Range{{64, 128, 2}, {128, 256, 1}}},
		{1, []Range{{64, 128, 2}, {128, 256, 1}}},
	} {
		if diff := cmp.Diff(test.want, h.FewRanges(test.most)); diff != "" {
			t.Errorf("at most %d: %s", test.most, diff)
		}
	}
	if got := h.FewRanges(100); len(got) != len(h.Ranges(8)) {
		t.Errorf("%d ranges where many fit, and with 8 steps %d", len(got), len(h.Ranges(8)))
	}
	if got := new(Histogram).FewRanges(20); got != nil {
		t.Errorf("ranges %v of nothing", got)
	}
}
