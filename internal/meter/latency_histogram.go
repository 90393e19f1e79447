package meter

import (
	"math"
	"math/bits"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The shape of a histogram, with the same names as in bpf/latency.c.
const (
	subBits    = int(latencyLimitSUB_BITS)
	subBuckets = int(latencyLimitSUB_BUCKETS)
	maxBits    = int(latencyLimitMAX_BITS)
	buckets    = int(latencyLimitBUCKETS)
)

// MaxBucket is the end of the last bucket. That bucket also counts longer times.
const MaxBucket = time.Duration(1) << maxBits

// LatencyCounts is the result of Latency.Read, cumulative since Open. The caller owns it.
type LatencyCounts struct {
	Verdicts [xdp.VerdictSlots]Histogram // by verdict, xdp.UnknownVerdict as the last
	CPUs     []Histogram                 // by possible CPU, all verdicts together
}

// Total returns the histogram of all verdicts together.
func (c *LatencyCounts) Total() (sum Histogram) {
	for i := range c.Verdicts {
		sum.Add(&c.Verdicts[i])
	}
	return sum
}

// Since returns the counts since another reading of the same counters.
func (c *LatencyCounts) Since(before *LatencyCounts) (d LatencyCounts) {
	for v := range c.Verdicts {
		d.Verdicts[v] = c.Verdicts[v].Since(&before.Verdicts[v])
	}
	for cpu := range c.CPUs {
		var earlier Histogram
		if cpu < len(before.CPUs) {
			earlier = before.CPUs[cpu]
		}
		d.CPUs = append(d.CPUs, c.CPUs[cpu].Since(&earlier))
	}
	return d
}

// Verdict returns the histogram of one verdict.
func (c *LatencyCounts) Verdict(v xdp.Verdict) *Histogram {
	return &c.Verdicts[v.Slot()]
}

// A Histogram is the distribution of run times, with 32 buckets in each power of two. The zero
// value is empty.
type Histogram struct {
	Count    uint64
	Sum      time.Duration
	Min, Max time.Duration // exact; 0 if the histogram is empty
	buckets  [buckets]uint64
}

// newHistogram returns one CPU's counts of a verdict. The program may have counted a run while its
// slot was copied, so that the beginning of the copy is older than the end. The buckets are at the
// end; Count, Min and Max therefore follow the buckets, so that the sum of the buckets is always
// Count.
func newHistogram(slot *latencyHistogram) *Histogram {
	h := &Histogram{Sum: time.Duration(slot.SumNs), buckets: slot.Buckets}
	first, last := -1, -1
	for i, n := range h.buckets {
		h.Count += n
		if n == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if h.Count == 0 {
		return h
	}
	h.Min = intoBucket(time.Duration(slot.MinNs), first)
	h.Max = max(intoBucket(time.Duration(slot.MaxNs), last), h.Min)
	return h
}

// intoBucket returns the value closest to d that belongs to a bucket.
func intoBucket(d time.Duration, bucket int) time.Duration {
	from, to := bucketBounds(bucket)
	if bucket == buckets-1 {
		return max(d, from) // the last bucket has no end
	}
	return min(max(d, from), to-1)
}

// Add adds all values of o to h.
func (h *Histogram) Add(o *Histogram) {
	if o.Count == 0 {
		return
	}
	if h.Count == 0 || o.Min < h.Min {
		h.Min = o.Min
	}
	h.Max = max(h.Max, o.Max)
	h.Count += o.Count
	h.Sum += o.Sum
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// Since returns the values that were added to h after it was `before`. Min and Max are bounds of
// buckets, exact to 3 %.
func (h *Histogram) Since(before *Histogram) (d Histogram) {
	if before.Count == 0 {
		return *h
	}
	for i, n := range h.buckets {
		n -= min(before.buckets[i], n)
		if n == 0 {
			continue
		}
		from, to := bucketBounds(i)
		if d.Count == 0 {
			d.Min = max(from, h.Min)
		}
		d.Max = min(to-1, h.Max)
		if i == buckets-1 {
			d.Max = h.Max // the last bucket has no end
		}
		d.Count += n
		d.buckets[i] = n
	}
	if d.Count > 0 {
		d.Sum = max(h.Sum-before.Sum, 0)
	}
	return d
}

// Observe adds one value, as the program in the kernel does.
func (h *Histogram) Observe(d time.Duration) {
	if h.Count == 0 || d < h.Min {
		h.Min = d
	}
	h.Max = max(h.Max, d)
	h.Count++
	h.Sum += d
	h.buckets[bucketOf(d)]++
}

// Mean returns the mean, 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return time.Duration(math.Round(float64(h.Sum) / float64(h.Count)))
}

// Quantile returns the value that the share q (0 to 1) of all values does not exceed. It is exact
// to 1.6 %, never outside Min and Max, and 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.Count)))
	rank = min(max(rank, 1), h.Count)
	var below uint64
	for i, n := range h.buckets {
		if below += n; below >= rank {
			from, to := bucketBounds(i)
			return min(max((from+to-1)/2, h.Min), h.Max)
		}
	}
	return h.Max
}

// Below returns how many values are less than a bound. It is exact if the bound is a bucket's:
// powers of two up to 2^34 ns and, between two of them, the bounds of 2, 4, 8, 16 or 32 equal
// steps, as far as they are whole nanoseconds.
func (h *Histogram) Below(bound time.Duration) (n uint64) {
	for i := range h.buckets {
		if _, to := bucketBounds(i); to > bound {
			break
		}
		n += h.buckets[i]
	}
	return n
}

// bucketOf computes the same as bucket_of in bpf/latency.c.
func bucketOf(d time.Duration) int {
	v := uint64(d)
	if v < uint64(subBuckets) {
		return int(v)
	}
	if v>>maxBits > 0 {
		return buckets - 1
	}
	shift := bits.Len64(v) - 1 - subBits
	return shift*subBuckets + int(v>>shift)
}

// bucketBounds returns the lowest value of a bucket, and the lowest value above it.
func bucketBounds(i int) (from, to time.Duration) {
	shift := max(i/subBuckets-1, 0)
	from = time.Duration(i-shift*subBuckets) << shift
	return from, from + 1<<shift
}
