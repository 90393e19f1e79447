package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/xdpcap/xdpcap/internal/meter"
)

// The bounds of the classic buckets of exported histograms are powers of two, from 2^5 ns (32 ns)
// to 2^24 ns (17 ms). They are few, because each bucket of each verdict is a series in Prometheus.
const firstBucketBits, lastBucketBits = 5, 24

// nativeSchema is the schema of the native buckets: the bound of each is 2^(1/8) times that of the
// one before, 9 % more.
const nativeSchema = 3

// A histogram has classic buckets and the native ones of Prometheus, which are finer. Prometheus
// stores all native ones as one series. It receives them only if it scrapes by protobuf, as it does
// once native histograms are switched on; a scrape as text has only the classic ones.
type histogram struct {
	prometheus.Metric // with the classic buckets
	native            prometheus.Metric
}

// Write implements prometheus.Metric.
func (h histogram) Write(out *dto.Metric) error {
	var fine dto.Metric
	if err := h.native.Write(&fine); err != nil {
		return err
	}
	if err := h.Metric.Write(out); err != nil {
		return err
	}
	to, n := out.Histogram, fine.Histogram
	to.Schema, to.ZeroThreshold, to.ZeroCount = n.Schema, n.ZeroThreshold, n.ZeroCount
	to.PositiveSpan, to.PositiveDelta = n.PositiveSpan, n.PositiveDelta
	return nil
}

func newHistogram(d *prometheus.Desc, h *meter.Histogram, labels []string) (prometheus.Metric, error) {
	buckets := make(map[float64]uint64)
	for b := firstBucketBits; b <= lastBucketBits; b++ {
		// A bucket of Prometheus includes its bound, but Below counts only times below it. Times
		// are whole nanoseconds, so the bound is one nanosecond less.
		buckets[float64(uint64(1)<<b-1)/1e9] = h.Below(time.Duration(1) << b)
	}
	classic, err := prometheus.NewConstHistogram(d, h.Count, h.Sum.Seconds(), buckets, labels...)
	if err != nil {
		return nil, err
	}
	// Prometheus recognizes a native histogram without runs only by its threshold. Otherwise it
	// would treat all histograms of the same name as classic ones.
	zero, fine := nativeBuckets(h)
	native, err := prometheus.NewConstNativeHistogram(d, h.Count, h.Sum.Seconds(), fine, nil, zero, nativeSchema,
		prometheus.DefNativeHistogramZeroThreshold, time.Time{}, labels...)
	return histogram{classic, native}, err
}

// nativeBuckets sorts the buckets of a histogram into native ones, by the number of each: bucket i
// is for times up to 2^(i/8) seconds. Its bounds differ from ours, so a time within 1.6 % of a
// bound may be in the bucket beside it. zero counts times of 0 ns.
func nativeBuckets(h *meter.Histogram) (zero uint64, native map[int]int64) {
	native = make(map[int]int64)
	for b := range h.Buckets() {
		middle := (b.From + b.To - 1).Seconds() / 2
		if middle == 0 {
			zero += b.Runs
			continue
		}
		native[int(math.Ceil(math.Log2(middle)*(1<<nativeSchema)))] += int64(b.Runs)
	}
	return zero, native
}
